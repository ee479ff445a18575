"""Learning under rate constraints: records are protected, gaps are driven to a target."""
