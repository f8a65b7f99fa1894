//! Times as people write them.

/// Reads an RFC 3339 time (`2027-01-31T12:00:00Z`, offsets and fractions allowed) as microseconds since 1970.
pub fn parse_rfc3339_us(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 || bytes.len() > 40 {
        return None;
    }
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = &text[range];
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let signs_are_right = bytes[4] == b'-'
        && bytes[7] == b'-'
        && matches!(bytes[10], b'T' | b't' | b' ')
        && bytes[13] == b':'
        && bytes[16] == b':';
    if !signs_are_right {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &text[19..];
    let mut fraction_us = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        let six: String = after[..digits].chars().chain("000000".chars()).take(6).collect();
        fraction_us = six.parse::<i64>().ok()?;
        rest = &after[digits..];
    }
    let offset_s = offset_s(rest)?;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
    u64::try_from(seconds * 1_000_000 + fraction_us).ok()
}

fn offset_s(text: &str) -> Option<i64> {
    if text == "Z" || text == "z" {
        return Some(0);
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..24).contains(&hours) && (0..60).contains(&minutes)).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_years = |year: i64| (year / 4) - (year / 100) + (year / 400);
    let days_before_year = (year - 1970) * 365 + leap_years(year - 1) - leap_years(1969);
    days_before_year + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_offsets_and_fractions() {
        assert_eq!(parse_rfc3339_us("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_rfc3339_us("2024-02-29T12:30:15.5Z"), Some(1_709_209_815_500_000));
        assert_eq!(parse_rfc3339_us("2027-01-31T12:00:00+02:00"), parse_rfc3339_us("2027-01-31T10:00:00Z"));
        for wrong in [
            "",
            "2027-02-30T00:00:00Z",
            "2027-01-31",
            "2027-01-31T25:00:00Z",
            "2027-01-31T12:00:00",
            "2027-01-31T12:00:00.Z",
        ] {
            assert_eq!(parse_rfc3339_us(wrong), None, "{wrong}");
        }
    }
}
