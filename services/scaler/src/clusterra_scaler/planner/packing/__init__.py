"""Where jobs go and what is bought for them, priced in the dollars a choice is expected to add. Pure."""
