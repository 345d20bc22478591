//! What PostgreSQL's errors mean where no SQLSTATE says it: the one place that looks at its words.
//!
//! Messages may be translated (`lc_messages`), so they are looked at only for what no translation changes: the names in them,
//! and the texts of `elog`, which are not translated. Which function has raised an error (`R`) is another stable word, asked in
//! PostgreSQL 15 and 18. It does not know what the caller does about it.

use crate::{ErrorFields, sqlstate};

/// The functions that find somebody else has changed a row of the catalog meanwhile (heapam.c, tableam.c).
const CHANGE_ROWS: [&str; 4] =
    ["simple_heap_update", "simple_heap_delete", "simple_table_tuple_update", "simple_table_tuple_delete"];

/// The functions that find a statement's columns to be others than it was prepared for (plancache.c), or than it is asked for (pquery.c).
const OTHER_COLUMNS: [&str; 2] = ["RevalidateCachedQuery", "PortalSetResultFormat"];

/// The functions that take a row of COPY's text apart (copyfromparse.c): until 17, and since 18.
const READ_COPY_ROWS: [&str; 2] = ["NextCopyFrom", "CopyFromTextLikeOneRow"];

/// What stands before and after a name in the messages of PostgreSQL's languages.
const QUOTES: [char; 5] = ['"', '«', '»', '„', '“'];

/// What French puts between them and the name.
const SPACES: [char; 2] = ['\u{a0}', '\u{202f}'];

impl ErrorFields {
    fn is_raised_by(&self, functions: &[&str]) -> bool {
        self.get(b'R').is_some_and(|function| functions.contains(&function))
    }

    /// A change of the catalog met another one of the same row. `elog` gives it no SQLSTATE of its own.
    pub fn is_overtaken(&self) -> bool {
        self.code() == sqlstate::INTERNAL_ERROR
            && self.is_raised_by(&CHANGE_ROWS)
            && self.message().starts_with("tuple concurrently ")
    }

    /// The node has other columns than those that it has prepared the statement for, or that it is asked for.
    pub fn has_other_columns(&self) -> bool {
        self.is_raised_by(&OTHER_COLUMNS)
    }

    /// A relation is missing that is named with this schema. PostgreSQL names it in the message alone.
    pub fn misses_relation_in(&self, schema: &str) -> bool {
        self.code() == sqlstate::UNDEFINED_TABLE
            && self
                .message()
                .split(QUOTES)
                .any(|part| part.trim_matches(SPACES).strip_prefix(schema).is_some_and(|n| n.starts_with('.')))
    }

    /// A text that begins so is no value of its type. PostgreSQL says which in the message alone.
    pub fn refuses_text(&self, begins: &str) -> bool {
        self.code() == sqlstate::INVALID_TEXT_REPRESENTATION
            && self.message().split(QUOTES).any(|part| part.trim_matches(SPACES).starts_with(begins.trim()))
    }

    /// How many rows a COPY has passed over (ON_ERROR), as CopyFrom (copyfrom.c) says at its end: a number is one in any language.
    pub fn rows_skipped(&self) -> Option<u64> {
        if self.code() != sqlstate::SUCCESSFUL_COMPLETION || !self.is_raised_by(&["CopyFrom"]) {
            return None;
        }
        let digits = |c: char| !c.is_ascii_digit();
        self.message().split(digits).find(|number| !number.is_empty())?.parse().ok()
    }

    /// The column for which a row of COPY had no field any more.
    pub fn copy_column_missing(&self) -> Option<&str> {
        if self.code() != sqlstate::BAD_COPY_FILE_FORMAT || !self.is_raised_by(&READ_COPY_ROWS) {
            return None;
        }
        // "missing data for column"; "extra data after last expected column" names none.
        let (_, named) = self.message().split_once(QUOTES)?;
        let (name, _) = named.rsplit_once(QUOTES)?;
        Some(name.trim_matches(SPACES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(code: &str, routine: &str, message: &str) -> ErrorFields {
        ErrorFields::error(code, message).with(b'R', routine)
    }

    #[test]
    fn a_refused_text_is_in_the_message_of_any_language() {
        let refuses = |message| raised("22P02", "boolin", message).refuses_text("herd: changes ");
        assert!(refuses("invalid input syntax for type boolean: \"herd: changes f\""));
        assert!(refuses("syntaxe en entrée invalide pour le type boolean : «\u{a0}herd: changes f\u{a0}»"));
        assert!(!refuses("invalid input syntax for type boolean: \"no herd: changes\""));
    }

    #[test]
    fn who_was_overtaken_may_begin_again() {
        let update = |message| raised("XX000", "simple_heap_update", message).is_overtaken();
        assert!(update("tuple concurrently updated") && update("tuple concurrently deleted"));
        assert!(!update("tuple already updated by self"));
        assert!(!raised("XX000", "exec_stmt_raise", "tuple concurrently updated").is_overtaken());
    }

    #[test]
    fn a_missing_relations_schema_is_read_in_any_language() {
        for (message, found) in [
            ("relation \"herd_shards.t_1\" does not exist", true),
            ("Relation »herd_shards.t_1« existiert nicht", true),
            ("la relation «\u{a0}herd_shards.t_1\u{a0}» n'existe pas", true),
            ("relation \"herd_shards_t\" does not exist", false),
            ("relation \"a.herd_shards.b\" does not exist", false),
        ] {
            assert_eq!(
                raised("42P01", "parserOpenTable", message).misses_relation_in("herd_shards"),
                found,
                "{message}"
            );
        }
    }

    #[test]
    fn a_missing_column_is_read_in_any_language() {
        let missing = |message| raised("22P04", "NextCopyFrom", message).copy_column_missing().map(str::to_string);
        assert_eq!(missing("missing data for column \"b\"").as_deref(), Some("b"));
        assert_eq!(missing("missing data for column \"a\"b\"").as_deref(), Some("a\"b"));
        assert_eq!(missing("Daten für Spalte »b« fehlen").as_deref(), Some("b"));
        assert_eq!(missing("données manquantes pour la colonne «\u{a0}b\u{a0}»").as_deref(), Some("b"));
        assert_eq!(missing("extra data after last expected column"), None);
        let other = raised("22P04", "CopyReadLineText", "missing data for column \"b\"");
        assert_eq!(other.copy_column_missing(), None);
    }
    #[test]
    fn rows_that_were_skipped_are_counted_in_any_language() {
        let skipped = |function, message| raised("00000", function, message).rows_skipped();
        assert_eq!(skipped("CopyFrom", "1 row was skipped due to data type incompatibility"), Some(1));
        assert_eq!(skipped("CopyFrom", "12 Zeilen wurden übersprungen"), Some(12));
        assert_eq!(skipped("exec_stmt_raise", "12 rows were skipped"), None);
    }
}
