"""Files and folders on disks and in object stores, by the addresses that Spark takes."""
