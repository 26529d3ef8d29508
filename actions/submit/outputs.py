"""Prints the outputs of the action from the record of a job, which is JSON on stdin: `state=` and `cost=`."""

import json
import re
import sys


def main() -> None:
    """Print the outputs, each on one line whatever the record has."""
    record = json.load(sys.stdin)
    state = str(record.get("state") or "")
    total = (record.get("cost") or {}).get("total") or {}
    amount = str(total.get("amount", "") if isinstance(total, dict) else total)
    sys.stdout.write(f"state={state if re.fullmatch('[A-Z_]+', state) else ''}\n")
    sys.stdout.write(f"cost={amount if re.fullmatch('[0-9.]+', amount) else ''}\n")


if __name__ == "__main__":
    main()
