"""AWS on this machine: one process that speaks AWS's HTTP to boto3, for `postroom up` and the tests."""
