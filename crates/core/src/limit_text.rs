//! Limits as people write them: `5/minute`, `100/second burst 200`, `10 per 30s`, `5/minute;100/hour`.

use crate::quota::{Algorithm, Quota, QuotaError};

/// How many limits one text may hold.
pub const LIMITS_MAX: usize = 16;

const SHAPE: &str = "expected COUNT/UNIT such as `5/minute`, `10 per 30s` or `100/second burst 200`";

/// Reads one or more limits, separated by `;`, `,` or `|`.
pub fn parse_limits(text: &str, algorithm: Option<Algorithm>) -> Result<Vec<Quota>, QuotaError> {
    let parts: Vec<&str> = text.split([';', ',', '|']).collect();
    if parts.len() > LIMITS_MAX {
        return Err(QuotaError(format!("at most {LIMITS_MAX} limits may stand together")));
    }
    parts.into_iter().map(|part| parse_limit(part, algorithm)).collect()
}

/// Reads one limit.
pub fn parse_limit(text: &str, algorithm: Option<Algorithm>) -> Result<Quota, QuotaError> {
    let words = words(text)?;
    let mut words = words.iter().map(String::as_str).peekable();
    let fail = |what: &str| QuotaError(format!("`{}` is not a limit: {what}", text.trim()));
    let count = number(words.next().ok_or_else(|| fail(SHAPE))?).ok_or_else(|| fail(SHAPE))?;
    match words.next() {
        Some("/" | "per") => {}
        _ => return Err(fail(SHAPE)),
    }
    let multiple = match words.peek().and_then(|word| number(word)) {
        Some(multiple) => {
            words.next();
            multiple
        }
        None => 1,
    };
    let unit = words.next().ok_or_else(|| fail(SHAPE))?;
    let unit_us = unit_us(unit).ok_or_else(|| {
        fail(&format!("`{unit}` is not a unit of time (ms, second, minute, hour, day, week, month, year)"))
    })?;
    let window_us = multiple.checked_mul(unit_us).ok_or_else(|| fail("the window is too long"))?;
    let burst = match words.next() {
        None => None,
        Some("burst") => {
            let burst = words.next().and_then(number);
            Some(burst.ok_or_else(|| fail("`burst` needs a number, as in `100/second burst 200`"))?)
        }
        Some(other) => return Err(fail(&format!("`{other}` was not expected here; {SHAPE}"))),
    };
    if let Some(extra) = words.next() {
        return Err(fail(&format!("`{extra}` was not expected here; {SHAPE}")));
    }
    Quota::new(count, window_us, burst, algorithm).map_err(|error| fail(&error.0))
}

/// Reads a length of time such as `60s`, `5 minutes`, `1h` or a bare number of seconds.
pub fn parse_duration_us(text: &str) -> Result<u64, QuotaError> {
    let fail = || QuotaError(format!("`{}` is not a length of time; expected `60s`, `5m` or `1 hour`", text.trim()));
    let words = words(text)?;
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [count] => number(count).and_then(|n| n.checked_mul(1_000_000)).ok_or_else(fail),
        [count, unit] => {
            let (count, unit) = (number(count).ok_or_else(fail)?, unit_us(unit).ok_or_else(fail)?);
            count.checked_mul(unit).ok_or_else(fail)
        }
        _ => Err(fail()),
    }
}

/// Splits into runs of digits, runs of letters and single signs, lower-cased.
fn words(text: &str) -> Result<Vec<String>, QuotaError> {
    let kind = |c: char| match c {
        '0'..='9' | '_' => 0,
        'a'..='z' | 'A'..='Z' => 1,
        _ => 2,
    };
    if text.len() > 128 {
        return Err(QuotaError("a limit is at most 128 characters long".into()));
    }
    let mut words: Vec<String> = Vec::new();
    let mut last_kind = None;
    for c in text.chars() {
        if c.is_whitespace() {
            last_kind = None;
            continue;
        }
        let this = kind(c);
        match words.last_mut() {
            Some(word) if last_kind == Some(this) && this != 2 => word.push(c.to_ascii_lowercase()),
            _ => words.push(c.to_ascii_lowercase().to_string()),
        }
        last_kind = Some(this);
    }
    Ok(words)
}

fn number(word: &str) -> Option<u64> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    word.replace('_', "").parse().ok()
}

fn unit_us(word: &str) -> Option<u64> {
    const SECOND_US: u64 = 1_000_000;
    Some(match word {
        "ms" | "millisecond" | "milliseconds" => 1_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND_US,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND_US,
        "h" | "hr" | "hour" | "hours" => 3_600 * SECOND_US,
        "d" | "day" | "days" => 86_400 * SECOND_US,
        "w" | "week" | "weeks" => 7 * 86_400 * SECOND_US,
        "month" | "months" => 30 * 86_400 * SECOND_US,
        "y" | "year" | "years" => 365 * 86_400 * SECOND_US,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (u64, u64, u64) {
        let quota = parse_limit(text, None).unwrap();
        (quota.count, quota.window_us / 1_000, quota.capacity)
    }

    #[test]
    fn limits_are_read_as_people_write_them() {
        assert_eq!(read("5/minute"), (5, 60_000, 5));
        assert_eq!(read("100/second burst 200"), (100, 1_000, 200));
        assert_eq!(read("10 per 30s"), (10, 30_000, 10));
        assert_eq!(read("10 per 2 hours"), (10, 7_200_000, 10));
        assert_eq!(read(" 1_000/5MINUTES "), (1_000, 300_000, 1_000));
        assert_eq!(read("50000/hour burst 200"), (50_000, 3_600_000, 200));
        assert_eq!(read("3/250ms"), (3, 250, 3));
        assert_eq!(parse_limits("5/minute; 100/hour", None).unwrap().len(), 2);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("", "expected COUNT/UNIT"),
            ("five/minute", "expected COUNT/UNIT"),
            ("5", "expected COUNT/UNIT"),
            ("5/fortnight", "`fortnight` is not a unit"),
            ("5/minute burst", "`burst` needs a number"),
            ("5/minute please", "`please` was not expected"),
            ("-5/minute", "expected COUNT/UNIT"),
            ("0/minute", "at least 1"),
            ("5/minute;", "expected COUNT/UNIT"),
            ("99999999999999999999/day", "expected COUNT/UNIT"),
        ] {
            let error = parse_limits(text, None).unwrap_err();
            assert!(error.0.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration_us("60s").unwrap(), 60_000_000);
        assert_eq!(parse_duration_us("60").unwrap(), 60_000_000);
        assert_eq!(parse_duration_us("5 minutes").unwrap(), 300_000_000);
        assert!(parse_duration_us("soon").is_err());
    }
}
