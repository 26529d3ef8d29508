"""The operations of the API, each written once as steps that the sync and the async client carry out."""
