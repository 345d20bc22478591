//! FOR and FOREACH: over numbers, rows of a query, of a cursor, and arrays.

use super::{Kind, Loop, Place, Query, Read, Reader, Step, Target, UNREAD};

impl Reader<'_, '_> {
    /// FOR … LOOP, behind FOR: what is looped over tells which it is.
    pub(super) fn for_loop(&mut self, label: Option<String>) -> Read<Step> {
        let around = self.scope.clone();
        self.scope = self.scope.labelled(label.as_deref());
        let step = self.for_what(label);
        self.scope = around;
        step
    }

    fn for_what(&mut self, label: Option<String>) -> Read<Step> {
        let (target, name) = self.for_variable()?;
        self.tokens.need("in")?;
        if self.tokens.take("execute") {
            let query = self.executed("loop")?;
            return self.rows(target, query, label);
        }
        if let Some(cursor) = self.bound_cursor() {
            let given = self.cursor_arguments(cursor)?;
            self.tokens.need("loop")?;
            let record = self.declared(&name.ok_or(UNREAD)?, Kind::Record);
            return Ok(Step::Cursor { record, cursor, given, steps: self.looped(label)? });
        }
        let reverse = self.tokens.take("reverse");
        let text = self.tokens.until(&["..", "loop"])?;
        if !self.tokens.take("..") {
            if reverse {
                return Err(UNREAD);
            }
            let query = Query::Static(self.statement(text)?);
            self.tokens.need("loop")?;
            return self.rows(target, query, label);
        }
        let lower = self.expression(text)?;
        let upper = self.until(&["loop", "by"])?;
        let by = if self.tokens.take("by") { Some(self.until(&["loop"])?) } else { None };
        self.tokens.need("loop")?;
        let variable = self.declared(&name.ok_or(UNREAD)?, Kind::Own);
        Ok(Step::Count { variable, lower, upper, by, reverse, steps: self.looped(label)? })
    }

    fn rows(&mut self, target: Option<Target>, query: Query, label: Option<String>) -> Read<Step> {
        Ok(Step::Rows { row: target.ok_or(UNREAD)?, query, steps: self.looped(label)? })
    }

    /// What stands behind FOR: variables, or the name of one that the loop makes.
    fn for_variable(&mut self) -> Read<(Option<Target>, Option<String>)> {
        let from = self.tokens.place();
        let names = self.tokens.dotted().ok_or(UNREAD)?;
        let name = names.last().cloned().filter(|_| self.tokens.is("in"));
        if self.lookup(&names).is_none() {
            return Ok((None, Some(name.ok_or(UNREAD)?)));
        }
        let behind = self.tokens.place();
        self.tokens.back_to(from);
        // A constant's name may be the loop's own.
        match self.target() {
            Ok(target) => Ok((Some(target), name)),
            Err(_) if name.is_some() => {
                self.tokens.back_to(behind);
                Ok((None, name))
            }
            Err(e) => Err(e),
        }
    }

    /// A cursor that has its query, if its name comes.
    fn bound_cursor(&mut self) -> Option<usize> {
        let from = self.tokens.place();
        let found = self.tokens.dotted().and_then(|names| self.lookup(&names));
        match found {
            Some(Place { variable, field: None })
                if self.program.variables[variable].cursor.is_some() && self.tokens.is_any(&["(", "loop"]) =>
            {
                Some(variable)
            }
            _ => {
                self.tokens.back_to(from);
                None
            }
        }
    }

    /// FOREACH … IN ARRAY, behind FOREACH.
    pub(super) fn for_each(&mut self, label: Option<String>) -> Read<Step> {
        let around = self.scope.clone();
        self.scope = self.scope.labelled(label.as_deref());
        let row = self.target()?;
        let slice = match self.tokens.take("slice") {
            true => {
                let number = self.tokens.text().parse().map_err(|_| UNREAD)?;
                self.tokens.next();
                number
            }
            false => 0,
        };
        self.tokens.need("in")?;
        self.tokens.need("array")?;
        let array = self.up_to("loop")?;
        let steps: Loop = self.looped(label)?;
        self.scope = around;
        Ok(Step::Each { row, slice, array, steps })
    }
}
