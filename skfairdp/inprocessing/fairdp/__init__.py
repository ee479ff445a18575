"""FairDP: groups that pull equally, under noise, with a bounded head."""
