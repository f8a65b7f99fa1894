//! The usual facts, read at a glance: a flat object of plain texts and whole numbers, as nearly every client sends.
//!
//! Anything else (escapes, descriptors, nulls, mistakes) is left to the full reader, so this one never has to say
//! what is wrong, and the two cannot disagree about what is right.

use super::facts_json::{FactsBody, Field};
use super::json::COST_MAX;
use std::borrow::Cow;

/// The facts, if they are written in the usual way.
#[inline]
pub(crate) fn scan(body: &str) -> Option<FactsBody<'_>> {
    let mut at = Scan { text: body, next: 0 };
    let mut facts = FactsBody::default();
    let mut seen = 0_u16;
    at.skip(b'{')?;
    loop {
        at.skip(b'"')?;
        let field = Field::from_name(at.plain_text()?)?;
        let bit = 1 << field as u16;
        if seen & bit != 0 {
            return None;
        }
        seen |= bit;
        at.skip(b':')?;
        if at.peek()? == b'"' {
            at.next += 1;
            let text = at.plain_text()?;
            if text.is_empty() || text.len() > field.kind().bytes_max {
                return None;
            }
            facts.put(field, Cow::Borrowed(text))?;
        } else {
            let (digits, number) = at.whole_number()?;
            match field {
                Field::Cost => facts.cost = number,
                Field::User | Field::ApiKey | Field::Org => facts.put(field, Cow::Borrowed(digits))?,
                _ => return None,
            }
        }
        match at.peek()? {
            b',' => at.next += 1,
            b'}' => {
                at.next += 1;
                return at.peek().is_none().then_some(facts);
            }
            _ => return None,
        }
    }
}

struct Scan<'de> {
    text: &'de str,
    next: usize,
}

impl<'de> Scan<'de> {
    /// The next byte that is not space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.next)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.next += 1;
        }
    }

    #[inline]
    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.next += 1)
    }

    /// The rest of a text whose opening quote was passed, if it has no escapes.
    #[inline]
    fn plain_text(&mut self) -> Option<&'de str> {
        let rest = &self.text.as_bytes()[self.next..];
        let len = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let text = self.text.get(self.next..self.next + len)?;
        self.next += len + 1;
        (rest[len] == b'"').then_some(text)
    }

    /// A number within the bounds of a cost, as JSON writes it: without leading zeros.
    #[inline]
    fn whole_number(&mut self) -> Option<(&'de str, u64)> {
        let rest = &self.text.as_bytes()[self.next..];
        let len = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        if len == 0 || len > 13 || (rest[0] == b'0' && len > 1) || matches!(rest[len], b'.' | b'e' | b'E') {
            return None;
        }
        let digits = self.text.get(self.next..self.next + len)?;
        let number = rest[..len].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        self.next += len;
        (number <= COST_MAX).then_some((digits, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::facts_json::read_facts_fully;

    const USUAL: &[&str] = &[
        r#"{"user":"7"}"#,
        r#"{"user":7,"org":0,"cost":0}"#,
        "{ \"user\" : \"7\" ,\n\t\"cost\":12 } ",
        r#"{"user":"u1","api_key":"k","org":"o","ip":"2001:db8::1","tier":"free","method":"GET","path":"/ä","region":"eu"}"#,
        r#"{"cost":1000000000000}"#,
    ];
    const UNUSUAL: &[&str] = &[
        "",
        "{}",
        "{",
        "[]",
        r#"{"user":"7"}x"#,
        r#"{"user":"7",}"#,
        r#"{"user":"7""#,
        r#"{"user":"a\"b"}"#,
        r#"{"user":""}"#,
        r#"{"user":null}"#,
        r#"{"user":"7","user":"7"}"#,
        r#"{"user":-7}"#,
        r#"{"user":1.5}"#,
        r#"{"user":1e3}"#,
        r#"{"user":01}"#,
        r#"{"user":99999999999999}"#,
        r#"{"tier":7}"#,
        r#"{"ip":"nowhere"}"#,
        r#"{"ip":7}"#,
        r#"{"cost":"1"}"#,
        r#"{"cost":1000000000001}"#,
        r#"{"colour":"red"}"#,
        r#"{"descriptors":{"a":"b"}}"#,
        r#"{"descriptors":"x"}"#,
        r#"{"user":"7","credentials":{"api_key":"k"}}"#,
        r#"{"credentials":"x"}"#,
        "{\"user\":\"a\nb\"}",
    ];

    #[test]
    fn the_usual_facts_are_read_as_the_full_reader_reads_them() {
        for body in USUAL {
            let glance = scan(body).unwrap_or_else(|| panic!("{body}"));
            assert_eq!(format!("{glance:?}"), format!("{:?}", read_facts_fully(body.as_bytes()).unwrap()), "{body}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_full_reader() {
        for body in UNUSUAL {
            assert!(scan(body).is_none(), "{body}");
        }
        assert!(scan(&format!(r#"{{"user":"{}"}}"#, "x".repeat(1_025))).is_none());
    }
}
