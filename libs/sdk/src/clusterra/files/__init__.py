"""Files of the cluster's bucket: lists, uploads in parts, downloads that resume, whole folders."""
