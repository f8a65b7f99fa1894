//! Reads JSON values and gathers every mistake with the path that leads to it.

use super::MISTAKES_MAX;
use serde_json::{Map, Value};
use std::fmt;

/// One step from a document's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Step::Key(key.to_string())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Step::Index(index)
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub path: Vec<Step>,
    pub message: String,
}

impl Mistake {
    pub fn at_root(message: String) -> Self {
        Self { path: Vec::new(), message }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.path.iter().enumerate() {
            match step {
                Step::Key(key) if position == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        let separator = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{separator}{}", self.message)
    }
}

/// A place in the document, and the list that mistakes go to.
pub struct Reader<'m, 'p> {
    mistakes: &'m mut Vec<Mistake>,
    parent: Option<&'p Link<'p>>,
}

/// The path so far, as a chain on the stack: nothing is allocated until there is a mistake.
struct Link<'p> {
    step: StepRef<'p>,
    parent: Option<&'p Link<'p>>,
}

#[derive(Clone, Copy)]
pub enum StepRef<'p> {
    Key(&'p str),
    Index(usize),
}

impl<'p> From<&'p str> for StepRef<'p> {
    fn from(key: &'p str) -> Self {
        StepRef::Key(key)
    }
}

impl From<usize> for StepRef<'_> {
    fn from(index: usize) -> Self {
        StepRef::Index(index)
    }
}

impl<'m, 'p> Reader<'m, 'p> {
    pub fn new(mistakes: &'m mut Vec<Mistake>) -> Self {
        Self { mistakes, parent: None }
    }

    /// Runs `read` one step further down.
    pub fn within<'s, R>(&mut self, step: impl Into<StepRef<'s>>, read: impl FnOnce(&mut Reader<'_, '_>) -> R) -> R {
        let link = Link { step: step.into(), parent: self.parent };
        read(&mut Reader { mistakes: self.mistakes, parent: Some(&link) })
    }

    pub fn within_all(&mut self, steps: &[&str], read: impl FnOnce(&mut Reader<'_, '_>)) {
        match steps {
            [] => read(&mut Reader { mistakes: self.mistakes, parent: self.parent }),
            [first, rest @ ..] => self.within(*first, |reader| reader.within_all(rest, read)),
        }
    }

    pub fn wrong(&mut self, message: impl Into<String>) {
        if self.mistakes.len() >= MISTAKES_MAX {
            return;
        }
        let mut path = Vec::new();
        let mut link = self.parent;
        while let Some(Link { step, parent }) = link {
            path.push(match step {
                StepRef::Key(key) => Step::Key((*key).to_string()),
                StepRef::Index(index) => Step::Index(*index),
            });
            link = *parent;
        }
        path.reverse();
        self.mistakes.push(Mistake { path, message: message.into() });
    }

    pub fn expected(&mut self, what: &str, got: &Value) {
        let got = match got {
            Value::Null => "nothing".to_string(),
            Value::Bool(value) => format!("{value}"),
            Value::Number(value) => format!("the number {value}"),
            Value::String(text) => format!("`{}`", text.chars().take(60).collect::<String>()),
            Value::Array(_) => "a list".to_string(),
            Value::Object(_) => "a mapping".to_string(),
        };
        self.wrong(format!("expected {what}, got {got}"));
    }

    /// A mapping with known keys only.
    pub fn object<'v>(&mut self, value: &'v Value, known: &[&str]) -> Option<&'v Map<String, Value>> {
        let Value::Object(object) = value else {
            self.expected("a mapping", value);
            return None;
        };
        for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
            let hint = match nearest(key, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            self.within(key.as_str(), |reader| reader.wrong(format!("`{key}` is not known here; {hint}")));
        }
        Some(object)
    }

    /// A text, bounded. Numbers are accepted where an id may be one.
    pub fn text(&mut self, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
            other => {
                self.expected("a text", other);
                return None;
            }
        };
        if text.is_empty() || text.len() > crate::facts::FACT_BYTES_MAX {
            self.wrong(format!("must be 1 to {} bytes long", crate::facts::FACT_BYTES_MAX));
            return None;
        }
        if text.chars().any(char::is_control) {
            self.wrong("must not hold control characters");
            return None;
        }
        Some(text)
    }

    /// A text or a list of them.
    pub fn texts(&mut self, value: &Value) -> Vec<String> {
        match value {
            Value::Array(items) if items.is_empty() => {
                self.wrong("must not be an empty list; leave it out to match anything");
                Vec::new()
            }
            Value::Array(items) => {
                let read = |(index, item)| self.within(index, |reader| reader.text(item));
                items.iter().enumerate().filter_map(read).collect()
            }
            single => self.text(single).into_iter().collect(),
        }
    }

    pub fn boolean(&mut self, value: &Value) -> Option<bool> {
        if let Value::Bool(value) = value {
            return Some(*value);
        }
        self.expected("true or false", value);
        None
    }

    pub fn integer(&mut self, value: &Value, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        match value.as_i64() {
            Some(number) if range.contains(&number) => Some(number),
            _ => {
                self.expected(&format!("a whole number from {} to {}", range.start(), range.end()), value);
                None
            }
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, value: &Value, choices: &[(&str, T)]) -> Option<T> {
        let chosen = value.as_str().and_then(|word| choices.iter().find(|(name, _)| *name == word));
        if let Some((_, choice)) = chosen {
            return Some(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let near = value.as_str().and_then(|word| nearest(word, &names));
        match near {
            Some(near) => {
                let message = format!("expected one of {}; did you mean `{near}`?", names.join(", "));
                self.wrong(message);
            }
            None => self.expected(&format!("one of {}", names.join(", ")), value),
        }
        None
    }
}

/// The known word that differs by at most two letters.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|candidate| (distance(word, candidate), *candidate));
    scored.filter(|(distance, candidate)| *distance <= 2.min(candidate.len() / 2)).min().map(|(_, near)| near)
}

/// Edits between two short words.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
