//! Text for a terminal: columns, and what clients sent made harmless.

/// Shows characters that would move the cursor, change colours or reorder what is read as `\u{…}`: scopes, paths and bodies
/// are what clients sent.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) { shown.extend(character.escape_unicode()) } else { shown.push(character) }
    }
    shown
}

/// As [`visible`], for text of several lines.
pub(crate) fn visible_lines(text: &str) -> String {
    text.split('\n')
        .map(|line| line.split('\t').map(visible).collect::<Vec<_>>().join("\t"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Control characters, and those of no width that join, split or turn the text around them.
fn is_hidden(character: char) -> bool {
    let turns = matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    character.is_control() || turns
}

/// Rows in columns as wide as their widest cell; the last column is not padded.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
