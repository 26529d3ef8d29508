"""People's files in the cluster's bucket: presigned URLs, resumable uploads, lists, deletes, copies."""
