"""The node process: rules in, an HTTP server out. Rust threads answer; this side reads files and signals."""
