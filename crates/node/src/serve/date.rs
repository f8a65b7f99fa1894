//! The `Date` of answers: written once a tick by each worker, copied into every answer.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const DATE_LEN: usize = 29;

thread_local!(static NOW: Cell<[u8; DATE_LEN]> = const { Cell::new(*b"Thu, 01 Jan 1970 00:00:00 GMT") });

/// The present second, as of the last [`refresh`] on this thread.
#[inline]
pub(crate) fn date() -> [u8; DATE_LEN] {
    NOW.get()
}

pub(crate) fn refresh() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    NOW.set(written(since.as_secs()));
}

/// A time as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn written(epoch_s: u64) -> [u8; DATE_LEN] {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (epoch_s / 86_400, epoch_s % 86_400);
    let (year, month, day) = civil(days);
    let text = format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month],
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
    text.as_bytes().try_into().unwrap_or(*b"Thu, 01 Jan 1970 00:00:00 GMT")
}

/// Year, month from 0, day from 1. Years begin in March here, so that the leap day is the last.
fn civil(days_since_1970: u64) -> (u64, usize, u64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let is_next_year = month_from_march >= 10;
    let month = if is_next_year { month_from_march - 10 } else { month_from_march + 2 };
    (era * 400 + year_of_era + u64::from(is_next_year), month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_http_wants_them() {
        for (epoch_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
        ] {
            assert_eq!(str::from_utf8(&written(epoch_s)).unwrap(), text);
        }
    }
}
