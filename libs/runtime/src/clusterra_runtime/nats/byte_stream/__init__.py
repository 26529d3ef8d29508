"""One duplex byte stream over requests and replies: bounded chunks, numbered, with credits."""
