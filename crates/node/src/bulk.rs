//! Rules in bulk: JSON Lines, one rule a line, read as a stream.

use crate::engine::Engine;
use headgate_core::rule_document::{Mistake, Step, read_rule};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The longest line: no rule needs more.
const LINE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub enum BulkError {
    Io(std::io::Error),
    /// The first mistake; its path begins with the line, counted from 0.
    Line(Mistake),
}

impl From<std::io::Error> for BulkError {
    fn from(error: std::io::Error) -> Self {
        BulkError::Io(error)
    }
}

/// Replaces all rules by those of a file; gives how many. On an error the old ones stay.
pub fn load_file(engine: &Engine, path: &Path) -> Result<usize, BulkError> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut count = 0;
    let wrong = |number: usize, mut mistake: Mistake| {
        mistake.path.insert(0, Step::Index(number));
        BulkError::Line(mistake)
    };
    engine.replace(|book| {
        let mut line = String::new();
        for number in 0.. {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let text = line.trim();
            if text.is_empty() {
                continue;
            }
            if text.len() > LINE_BYTES_MAX {
                let mistake = Mistake::at_root(format!("longer than {LINE_BYTES_MAX} bytes"));
                return Err(wrong(number, mistake));
            }
            let rule = read_rule(text).map_err(|mistakes| {
                let first = mistakes.into_iter().next();
                wrong(number, first.unwrap_or_else(|| Mistake::at_root("not a rule".to_string())))
            })?;
            if book.contains(&rule.name) {
                let message = format!("`{}` was named on an earlier line", rule.name);
                return Err(wrong(number, Mistake::at_root(message)));
            }
            book.put(&rule).map_err(|error| wrong(number, Mistake::at_root(error.0)))?;
            count += 1;
        }
        Ok(())
    })?;
    Ok(count)
}
