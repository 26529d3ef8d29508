# All images with one command: `make images`, or `docker buildx bake` for the tag `dev`. images/services/README.md has more.

variable "VERSION" {
  default     = "dev"
  description = "The tag and the version label; `make images` takes it from `git describe`."
}

variable "REVISION" {
  default     = null
  description = "The commit that the images are built from."
}

variable "SOURCE_DATE_EPOCH" {
  default     = null
  description = "The time of that commit in seconds since 1970, which the images have as theirs."
}

variable "SOURCE" {
  default     = null
  description = "The URL of the repository."
}

variable "REGISTRY" {
  default     = ""
  description = "What precedes an image's name, with a slash at its end, such as registry.example.org/clusterra/."
}

variable "UV_VERSION" {
  default     = "latest"
  description = "The tag of uv's image."
}

variable "RELEASED" {
  default = [
    "gateway", "proxy", "scaler", "edge-agent", "events", "admin", "cli",
    "slurmctld", "slurmdbd", "slurmrestd", "login", "slurmd",
  ]
  description = "The images of a release. `edge` is only for compose.yaml."
}

group "default" {
  targets = ["services", "slurm", "edge"]
}

target "_common" {
  args = {
    SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH
  }
  labels = {
    "org.opencontainers.image.version"  = VERSION
    "org.opencontainers.image.revision" = REVISION
    "org.opencontainers.image.source"   = SOURCE
    "org.opencontainers.image.created"  = SOURCE_DATE_EPOCH == null ? null : timeadd("1970-01-01T00:00:00Z", "${SOURCE_DATE_EPOCH}s")
  }
}

target "services" {
  inherits = ["_common"]
  name     = image
  matrix = {
    image = ["gateway", "proxy", "scaler", "edge-agent", "events", "admin", "cli"]
  }
  dockerfile = "images/services/Dockerfile"
  target     = image
  args       = { UV_VERSION = UV_VERSION, VERSION = VERSION }
  tags       = ["${REGISTRY}clusterra-${image}:${VERSION}"]
}

target "slurm" {
  inherits = ["_common"]
  name     = image
  matrix = {
    image = ["slurmctld", "slurmdbd", "slurmrestd", "login", "slurmd"]
  }
  context = "images/slurm"
  target  = image
  tags    = ["${REGISTRY}clusterra-${image}:${VERSION}"]
}

# Not of a release: a site builds it with the packages that its people need. docs/guide/software.md has more.
variable "PACKAGES" {
  default     = null
  description = "Debian's packages of slurmd-software in place of those of images/slurm/Dockerfile, with spaces between."
}

target "slurmd-software" {
  inherits = ["_common"]
  context  = "images/slurm"
  target   = "slurmd-software"
  args     = { PACKAGES = PACKAGES }
  tags     = ["${REGISTRY}clusterra-slurmd-software:${VERSION}"]
}

target "edge" {
  inherits   = ["_common"]
  dockerfile = "images/edge/Dockerfile"
  contexts   = { slurmd = "target:slurmd" }
  args       = { UV_VERSION = UV_VERSION, VERSION = VERSION }
  tags       = ["${REGISTRY}clusterra-edge:${VERSION}"]
}

# `make release` pushes these: the same images with attestations, which the engine's own builder cannot make. It needs a
# builder of the driver docker-container, kubernetes or remote, or an engine with containerd's image store.
target "release" {
  name     = "release-${image}"
  matrix   = { image = RELEASED }
  inherits = [image]
  attest   = ["type=provenance,mode=max", "type=sbom"]
}
