module clusterra.local/lab/definitions

go 1.26.0

require (
	github.com/aws/karpenter-provider-aws v1.14.1
	github.com/external-secrets/external-secrets v1.3.2
	sigs.k8s.io/gateway-api v1.6.3
)
