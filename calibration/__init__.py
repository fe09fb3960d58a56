"""What events cost on a machine. Ranks candidates; never makes one legal or illegal."""
