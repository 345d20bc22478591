//! DECLARE: variables with their types, cursors, and other names of variables. Which types and tables there are is not known here.

use super::super::BoundCursor;
use super::{Kind, Read, Reader, UNREAD, Variable};
use crate::lexer::TokenKind;

impl Reader<'_, '_> {
    /// One declaration; another name of a variable makes none.
    pub(super) fn declaration(&mut self) -> Read<Vec<usize>> {
        let name = self.tokens.name().ok_or(UNREAD)?;
        if self.tokens.take("alias") {
            self.tokens.need("for")?;
            let names = self.tokens.dotted().ok_or(UNREAD)?;
            let place = self.lookup(&names).filter(|place| place.field.is_none()).ok_or(UNREAD)?;
            self.scope = self.scope.with(&name, place.variable);
            self.tokens.need(";")?;
            return Ok(vec![]);
        }
        if let Some(scroll) = self.cursor_begins() {
            return self.cursor(name, scroll);
        }
        let constant = self.tokens.take("constant");
        let kind = self.kind(&["collate", "not", ":=", "=", "default", ";"])?;
        let collation = match self.tokens.take("collate") {
            true => Some(self.tokens.dotted().ok_or(UNREAD)?),
            false => None,
        };
        let not_null = self.tokens.take("not");
        if not_null {
            self.tokens.need("null")?;
        }
        let begins = self.tokens.take(":=") || self.tokens.take("=") || self.tokens.take("default");
        let first = if begins { Some(self.until(&[";"])?) } else { None };
        self.tokens.need(";")?;
        let named = Some(name.clone());
        let at = self.unseen(Variable { name: named, kind, first, constant, not_null, collation, cursor: None });
        self.scope = self.scope.with(&name, at);
        Ok(vec![at])
    }

    /// [NO SCROLL | SCROLL] CURSOR, and what it says of going back.
    fn cursor_begins(&mut self) -> Option<Option<bool>> {
        let from = self.tokens.place();
        let scroll = match (self.tokens.take("no"), self.tokens.take("scroll")) {
            (true, true) => Some(false),
            (false, true) => Some(true),
            (false, false) => None,
            (true, false) => {
                self.tokens.back_to(from);
                return None;
            }
        };
        // A type may be called so, too.
        let is = self.tokens.is("cursor") && ["(", "for", "is"].iter().any(|word| self.tokens.is_behind(word));
        if !is {
            self.tokens.back_to(from);
            return None;
        }
        self.tokens.next();
        Some(scroll)
    }

    /// What stands behind CURSOR. Its arguments can be seen by its query alone.
    fn cursor(&mut self, name: String, scroll: Option<bool>) -> Read<Vec<usize>> {
        let around = self.scope.clone();
        self.scope = self.scope.labelled(None);
        let mut arguments = vec![];
        if self.tokens.take("(") {
            loop {
                let name = self.tokens.name().ok_or(UNREAD)?;
                let kind = self.kind(&[",", ")"])?;
                arguments.push(self.declared(&name, kind));
                if !self.tokens.take(",") {
                    break;
                }
            }
            self.tokens.need(")")?;
        }
        if !self.tokens.take("is") {
            self.tokens.need("for")?;
        }
        let text = self.tokens.until(&[";"])?;
        self.tokens.need(";")?;
        let query = self.statement(text)?;
        self.scope = around;
        let cursor = Some(BoundCursor { query, arguments: arguments.clone(), scroll });
        let kind = Kind::Type("pg_catalog.refcursor".into());
        let at = self.unseen(Variable { name: Some(name.clone()), kind, cursor, ..Variable::default() });
        self.scope = self.scope.with(&name, at);
        arguments.push(at);
        Ok(arguments)
    }

    /// A type up to one of these.
    fn kind(&mut self, ends: &[&str]) -> Read<Kind> {
        let from = self.tokens.place();
        let is_record = self.tokens.take("record");
        if is_record && self.tokens.is_any(ends) {
            return Ok(Kind::Record);
        }
        self.tokens.back_to(from);
        if let Some(names) = self.tokens.dotted() {
            let written = self.tokens.between(from, self.tokens.place());
            if self.tokens.is("%") {
                let kind = match (self.tokens.is_behind("type"), self.tokens.is_behind("rowtype")) {
                    (true, _) => self.type_of(&names, from)?,
                    (_, true) => Kind::Row(written.to_string()),
                    _ => return Err(UNREAD),
                };
                self.tokens.next();
                self.tokens.next();
                return if self.tokens.is_any(ends) {
                    Ok(kind)
                } else {
                    Err("has a variable of an array of another's type")
                };
            }
        }
        self.tokens.back_to(from);
        let text = self.tokens.until(ends)?;
        // A string would be read anew as part of a question.
        let is_plain = (from..self.tokens.place()).all(|at| {
            !matches!(self.tokens.kind_at(at), Some(TokenKind::String | TokenKind::EString | TokenKind::DollarString))
        });
        if is_plain { Ok(Kind::Type(text.to_string())) } else { Err(UNREAD) }
    }

    /// name%TYPE: of a variable, or of a table's column.
    fn type_of(&mut self, names: &[String], from: usize) -> Read<Kind> {
        if let Some(place) = self.lookup(names)
            && place.field.is_none()
        {
            return Ok(Kind::Like(place.variable));
        }
        if names.len() < 2 {
            return Err(UNREAD);
        }
        let at = self.tokens.place();
        let (table, column) = (self.tokens.between(from, at - 2), self.tokens.between(at - 1, at));
        Ok(Kind::Column(table.to_string(), column.to_string()))
    }
}
