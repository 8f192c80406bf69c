"""`regroup assign`: runs assignors on cases from a file, and producers' partitioners on records from a file."""
