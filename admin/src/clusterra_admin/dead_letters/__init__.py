"""Messages that nobody could handle: lists, shows and replays them."""
