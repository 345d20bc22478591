//! Statements of a body that are known by more than one word: DO, which runs a text, and SELECT INTO, which makes a table.
//!
//! A keyword can't be written in any other way (an identifier can, by its characters' numbers), and so stands in the body as
//! a word, however strings and comments are read there. What is in doubt counts. It does not know what the statements do.

use super::body::is_word;

/// It may have a DO statement: behind the word comes a string, or LANGUAGE (gram.y, DoStmt), or a comment before those.
/// `text` in lower case.
pub(super) fn runs_block(text: &str) -> bool {
    ends_of(text, "do").any(|end| {
        let rest = text[end..].trim_start();
        let word_ends = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        match word_ends {
            0 => rest.starts_with(['\'', '$', '-', '/']),
            _ => &rest[..word_ends] == "language" || rest[word_ends..].starts_with(['\'', '&']),
        }
    })
}

/// It may have a SELECT INTO: an INTO behind anything but the beginning of an INSERT or MERGE. Of a body in SQL: in PL/pgSQL
/// INTO leads to variables. `text` in lower case.
pub(super) fn selects_into(text: &str) -> bool {
    text.match_indices("into").any(|(at, word)| {
        let (before, behind) = (&text[..at], &text[at + word.len()..]);
        let glued = before.ends_with(|c: char| is_word(c) && !c.is_ascii_digit());
        if glued || behind.starts_with(is_word) {
            return false;
        }
        let before = before.trim_end();
        let Some(before) = before.strip_suffix("insert").or_else(|| before.strip_suffix("merge")) else { return true };
        // `SELECT 1 insert INTO t` has a column of that name.
        let before = before.trim_end();
        !(before.is_empty() || before.ends_with([';', '(']))
    })
}

/// Where a word ends, each time it stands there.
fn ends_of<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    text.match_indices(word).map(|(at, _)| (at, at + word.len())).filter_map(|(at, end)| {
        let whole = !text[..at].ends_with(is_word) && !text[end..].starts_with(is_word);
        whole.then_some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_told_from_what_conflicts_do() {
        for text in [
            "do 'a'",
            "begin do\n$$ a $$; end",
            "do e'a'",
            "do language sql 'a'",
            "do u&'a'",
            "do/**/'a'",
            "do --\n'a'",
        ] {
            assert!(runs_block(text), "{text}");
        }
        for text in ["on conflict do nothing", "do update set a = 'b'", "-- do not", "redo 'a'", "do_it('a')", "do."] {
            assert!(!runs_block(text), "{text}");
        }
    }

    #[test]
    fn a_table_is_made_by_into() {
        for text in
            ["select 1 into t", "select 1 insert into t", "select f(x)merge into t", "select $1into t", "'x'into t"]
        {
            assert!(selects_into(text), "{text}");
        }
        for text in
            ["insert into t", "a; insert\ninto t", "with x as (insert into t", "merge into t", "intol", "t_into"]
        {
            assert!(!selects_into(text), "{text}");
        }
    }
}
