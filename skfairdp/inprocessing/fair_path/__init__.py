"""The optimal fair classifier as two private scores and one released table."""
