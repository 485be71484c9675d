//! Durations (`48h`, `1h30m`, `500ms`) and sizes (`1MiB`, `10MB`) as people write them.

use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60 * 1000), ("h", 60 * 60 * 1000), ("d", 24 * 60 * 60 * 1000)];

const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1000),
    ("MB", 1000 * 1000),
    ("GB", 1000 * 1000 * 1000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Reads a duration: one or more whole numbers, each with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let mut millis: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, unit, after) = part(rest);
        let number: u64 = number.parse().map_err(|_| format!("`{text}` is no duration"))?;
        if unit.is_empty() {
            return Err(format!("`{text}` needs a unit: ms, s, m, h or d"));
        }
        let (_, factor) = DURATION_UNITS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| format!("`{unit}` is no unit of time; units are ms, s, m, h and d"))?;
        millis = number
            .checked_mul(factor)
            .and_then(|more| millis.checked_add(more))
            .ok_or_else(|| format!("`{text}` is out of range"))?;
        rest = after;
    }
    if text.is_empty() { Err("an empty text is no duration".to_owned()) } else { Ok(Duration::from_millis(millis)) }
}

/// Reads a size in bytes: a whole number with its unit; without one it is bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit, after) = part(text);
    let number: u64 = number.parse().ok().filter(|_| after.is_empty()).ok_or_else(|| format!("`{text}` is no size"))?;
    if unit.is_empty() {
        return Ok(number);
    }
    let (_, factor) = SIZE_UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| format!("`{unit}` is no unit of size; units are B, KB, MB, GB, KiB, MiB and GiB"))?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is out of range"))
}

/// Splits `30s5m` into `30`, `s` and `5m`.
fn part(text: &str) -> (&str, &str, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(letters);
    (number, unit, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in [("500ms", 500), ("1s", 1000), ("1h30m", 5_400_000), ("48h", 172_800_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "1", "s", "1.5s", "-1s", "1M", "1 s", " 1s", "1s ", "1 month", "99999999999999999999s", "ms5"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration(&format!("{}d", u64::MAX)).is_err());
    }

    #[test]
    fn sizes_are_numbers_with_units_or_bytes() {
        for (text, bytes) in [("0", 0), ("7", 7), ("7B", 7), ("64KiB", 65536), ("1MiB", 1 << 20), ("10MB", 10_000_000)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "1.5MiB", "-1", "1mb", "1M", "1 MiB", "1MiB2KiB", "99999999999999999999", "1TiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert!(size(&format!("{}GiB", u64::MAX)).is_err());
    }
}
