"""The admin API, over real databases."""
