//! The one way in which this crate spells a JSON string, for canonical bodies and for problems. Records keep fingerprints
//! of what is written here, so the spelling never changes (F9).

/// Appends `text` as a JSON string: a backslash before `"` and `\`, `\u00xx` for control characters, all else as it is.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0x00..=0x1f => {
                out.extend(b"\\u00");
                out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0x0f)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
