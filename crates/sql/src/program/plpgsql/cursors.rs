//! OPEN, FETCH and MOVE. What a cursor is of stands in its declaration.

use super::super::Direction;
use super::{Ex, Read, Reader, Step, UNREAD};

impl Reader<'_, '_> {
    /// OPEN: a cursor that has its query with its arguments, another FOR one.
    pub(super) fn open(&mut self) -> Read<Step> {
        let cursor = self.read_variable()?;
        if self.program.variables[cursor].cursor.is_some() {
            let given = self.cursor_arguments(cursor)?;
            self.tokens.need(";")?;
            return Ok(Step::Open { cursor, given, query: None, scroll: None });
        }
        let no = self.tokens.take("no");
        let scroll = if self.tokens.take("scroll") { Some(!no) } else { None };
        self.tokens.need("for")?;
        let query = Some(self.query(";")?);
        Ok(Step::Open { cursor, given: vec![], query, scroll })
    }

    /// A bound cursor's arguments, by their places or their names.
    pub(super) fn cursor_arguments(&mut self, cursor: usize) -> Read<Vec<(usize, Ex)>> {
        let bound = self.program.variables[cursor].cursor.as_ref().ok_or(UNREAD)?;
        let arguments = bound.arguments.clone();
        if arguments.is_empty() {
            return Ok(vec![]);
        }
        self.tokens.need("(")?;
        let mut given: Vec<(usize, Ex)> = vec![];
        for n in 0..arguments.len() {
            let by_name = self.tokens.is_behind(":=") || self.tokens.is_behind("=>");
            let at = match by_name {
                true => {
                    let name = self.tokens.name().ok_or(UNREAD)?;
                    self.tokens.next();
                    let is = |at: &&usize| self.program.variables[**at].name.as_deref() == Some(&name);
                    *arguments.iter().find(is).ok_or(UNREAD)?
                }
                false => arguments[n],
            };
            if given.iter().any(|(other, _)| *other == at) {
                return Err(UNREAD);
            }
            given.push((at, self.until(&[",", ")"])?));
            self.tokens.need(if n + 1 < arguments.len() { "," } else { ")" })?;
        }
        Ok(given)
    }

    /// FETCH and MOVE: where to, of which cursor, and the target of FETCH.
    pub(super) fn fetch(&mut self, fetches: bool) -> Read<Step> {
        let direction = self.direction()?;
        let cursor = self.read_variable()?;
        let into = match fetches {
            true => {
                self.tokens.need("into")?;
                Some(self.target()?)
            }
            false => None,
        };
        self.tokens.need(";")?;
        Ok(Step::Fetch { cursor, direction, into })
    }

    fn direction(&mut self) -> Read<Direction> {
        let plain = |words| Ok(Direction { words, count: None });
        for (word, words) in [("next", "NEXT"), ("prior", "PRIOR"), ("first", "FIRST"), ("last", "LAST")] {
            let from = self.tokens.place();
            if self.tokens.take(word) {
                if self.tokens.take("from") || self.tokens.take("in") {
                    return plain(words);
                }
                // A cursor's name.
                self.tokens.back_to(from);
            }
        }
        for (word, words) in [("absolute", "ABSOLUTE"), ("relative", "RELATIVE")] {
            if self.tokens.is(word) && !self.tokens.is_behind("into") && !self.tokens.is_behind(";") {
                self.tokens.next();
                return self.counted(words);
            }
        }
        for (word, words, all) in [("forward", "FORWARD", "FORWARD ALL"), ("backward", "BACKWARD", "BACKWARD ALL")] {
            if self.tokens.is(word) && !self.tokens.is_behind("into") && !self.tokens.is_behind(";") {
                self.tokens.next();
                if self.tokens.take("from") || self.tokens.take("in") {
                    return plain(words);
                }
                if self.tokens.take("all") {
                    return if self.tokens.take("from") || self.tokens.take("in") { plain(all) } else { Err(UNREAD) };
                }
                return self.counted(words);
            }
        }
        if self.tokens.take("all") {
            return if self.tokens.take("from") || self.tokens.take("in") { plain("ALL") } else { Err(UNREAD) };
        }
        if self.tokens.take("from") || self.tokens.take("in") {
            return plain("NEXT");
        }
        let from = self.tokens.place();
        let cursor = self.tokens.dotted().and_then(|names| self.lookup(&names));
        let is_cursor = cursor.is_some() && (self.tokens.is("into") || self.tokens.is(";"));
        self.tokens.back_to(from);
        if is_cursor { plain("NEXT") } else { self.counted("FORWARD") }
    }

    /// A number that is computed, and FROM or IN behind it.
    fn counted(&mut self, words: &'static str) -> Read<Direction> {
        let count = Some(self.until(&["from", "in"])?);
        self.tokens.next();
        Ok(Direction { words, count })
    }
}
