"""Real proxies, set up as `examples/` says, with a real application behind them and a real node beside them."""
