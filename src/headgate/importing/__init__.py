"""Other limiters' files as rules that behave the same, and what is to be said where they cannot."""
