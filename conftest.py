"""What holds for the tests of all packages."""

from hypothesis import settings

# How long an example takes is the machine's affair, and it runs other tests beside this one.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
