"""Speed, as a ratio to a peer in the same run; figures stand in README.md."""
