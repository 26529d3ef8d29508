"""The folder of one cluster on this machine: its state survives, and the next cluster there continues with it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.machine.secret_file import ensure_secret
from clusterra_lab.slurm import config as slurm_config
from clusterra_lab.slurm.config import (
    GPU,
    HOMES,
    HOST,
    JOB_SUBMIT,
    JWT_KEY,
    MOST_GPUS,
    RESUME_LOG,
    SCRIPTS,
    SHARED_PATH,
    SLURM_KEY,
    SlurmConfig,
)

SLURM_UID = 64030
"""The account `slurm` of Debian's packages, by Debian policy the same everywhere."""

IMAGES = Path(__file__).parents[4] / "images" / "slurm"
"""The sources of the images, which include the scripts."""

_SLURM_KEY_BYTES = 1024


@dataclass(frozen=True)
class SlurmDirectory:
    """The folder of a cluster, with its subfolders."""

    path: Path

    @property
    def etc(self) -> Path:
        """Configuration and keys."""
        return self.path / "etc"

    @property
    def shared(self) -> Path:
        """The folder that all nodes share; every user may write."""
        return self.path / "shared"

    @property
    def spool(self) -> Path:
        """Has a folder for each slurmd, named like its node, with slurmd's state and the scripts of its jobs."""
        return self.path / "spool"

    @property
    def logs(self) -> Path:
        """Logs of the daemons, and of each slurmd by its node's name."""
        return self.path / "log"

    @property
    def scripts(self) -> Path:
        """Prolog, epilog and the compiled plugin; a copy, because the cluster's root user may write there."""
        return self.path / "scripts"

    @property
    def _hosts(self) -> Path:
        """The cluster's /etc/hosts: slurmctld listens on the address of its host name."""
        return self.path / "hosts"

    @property
    def description(self) -> Path:
        """The file by which other processes find the running cluster."""
        return self.path / "slurm.json"

    @property
    def _state(self) -> Path:
        return self.path / "state"

    @property
    def _homes(self) -> Path:
        """The homes that identity sources name; workers make them. All others are in the shared folder."""
        return self.path / "homes"

    @property
    def _database(self) -> Path:
        return self.path / "database"

    @property
    def mounts(self) -> dict[Path, str]:
        """Path on this machine -> path inside the cluster, for each folder and for the file of hosts."""
        return {
            self.etc: slurm_config.ETC,
            self._state: slurm_config.STATE,
            self.spool: slurm_config.SPOOL,
            self.logs: slurm_config.LOG,
            self._database: "/var/lib/mysql",
            self.shared: SHARED_PATH,
            self._homes: "/home",
            self.scripts: SCRIPTS,
            self._hosts: "/etc/hosts",
        }

    def prepare(self, config: SlurmConfig) -> None:
        """Make the missing folders and keys, and write the configuration."""
        for folder in self.mounts.keys() - {self._hosts}:
            folder.mkdir(parents=True, exist_ok=True)
        self.shared.chmod(0o1777)
        # Owned by root: a user who could write here could replace another user's home.
        (self.shared / HOMES).mkdir(exist_ok=True)
        self._homes.chmod(0o755)
        os.chown(self._state, SLURM_UID, SLURM_UID)
        self._hosts.write_text(f"127.0.0.1 localhost\n{config.options.address} {HOST}\n")
        self._write_keys()
        self._write_config(config)
        shutil.copytree(IMAGES, self.scripts, ignore=shutil.ignore_patterns("tests"), dirs_exist_ok=True)
        self.description.unlink(missing_ok=True)

    def repair_state(self) -> None:
        """Complete a save that a SIGKILL of slurmctld interrupted; slurmctld must not be running.

        slurmctld replaces a state file in steps: it links `X` as `X.old`, unlinks `X`, and links the complete `X.new`
        as `X`. If it is killed before the last step, it does not start again.
        """
        for new in self._state.glob("*.new"):
            file = new.with_suffix("")
            if not file.exists() and file.with_suffix(".old").exists():
                new.rename(file)

    def _write_keys(self) -> None:
        slurm_key, jwt_key = self.etc / SLURM_KEY, self.etc / JWT_KEY
        if not slurm_key.exists():
            slurm_key.touch(mode=0o600)
            slurm_key.write_bytes(os.urandom(_SLURM_KEY_BYTES))
        ensure_secret(jwt_key)
        for key in (slurm_key, jwt_key):
            os.chown(key, SLURM_UID, SLURM_UID)

    def _write_config(self, config: SlurmConfig) -> None:
        for name, content in config.files().items():
            file = self.etc / name
            file.write_text(content)
            file.chmod(0o755 if content.startswith("#!") else 0o644)
        for number in range(MOST_GPUS):
            device = self.etc / f"{GPU}{number}"
            device.unlink(missing_ok=True)
            device.symlink_to("/dev/null")
        if config.options.power_saving:
            resumed = self.logs / RESUME_LOG
            resumed.touch()
            os.chown(resumed, SLURM_UID, SLURM_UID)
        else:
            shutil.copy(IMAGES / JOB_SUBMIT, self.etc)
            # slurmdbd does not start if others can read its configuration.
            slurmdbd_conf = self.etc / "slurmdbd.conf"
            slurmdbd_conf.chmod(0o600)
            os.chown(slurmdbd_conf, SLURM_UID, SLURM_UID)
