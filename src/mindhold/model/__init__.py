"""Values that features share. Standard library only, apart from numpy in query and ranking and the stemmer in lexemes."""
