//! PL/pgSQL's statements but blocks and FOR, each by the word that it begins with. What begins with none of them is SQL.

use super::super::{Diagnostic, Raise};
use super::{Jump, Kind, Place, Query, Read, Reader, Step, Target, UNREAD, conditions};

impl Reader<'_, '_> {
    /// One statement; NULL is none.
    pub(super) fn step(&mut self) -> Read<Option<Step>> {
        if let Some(place) = self.assigned()? {
            let change = self.program.changed.len() - 1;
            let value = self.up_to(";")?;
            self.program.changed[change].1 = Some(value);
            return Ok(Some(Step::Assign(place, value)));
        }
        if self.tokens.is("<<") || self.tokens.is_any(&["declare", "begin", "loop", "while", "for", "foreach"]) {
            return self.with_label().map(Some);
        }
        let from = self.tokens.place();
        let word = self.tokens.text().to_ascii_lowercase();
        self.tokens.next();
        let step = match word.as_str() {
            "null" => {
                self.tokens.need(";")?;
                return Ok(None);
            }
            "if" => self.branch()?,
            "case" => self.case()?,
            "exit" | "continue" => {
                let label = self.tokens.name();
                let condition = match (self.tokens.take("when"), self.tokens.take(";")) {
                    (true, _) => Some(self.up_to(";")?),
                    (false, true) => None,
                    _ => return Err(UNREAD),
                };
                Step::Jump(Jump { exit: word == "exit", label }, condition)
            }
            "return" => self.gives()?,
            "raise" => Step::Raise(self.raise()?),
            "assert" => {
                let condition = self.until(&[",", ";"])?;
                let message = if self.tokens.take(",") { Some(self.until(&[";"])?) } else { None };
                self.tokens.need(";")?;
                Step::Assert(condition, message)
            }
            "perform" => Step::Perform(self.up_to(";")?),
            "execute" => self.execute()?,
            "get" => self.diagnostics()?,
            "open" => self.open()?,
            "fetch" => self.fetch(true)?,
            "move" => self.fetch(false)?,
            "close" => {
                let cursor = self.read_variable()?;
                self.tokens.need(";")?;
                Step::Close(cursor)
            }
            "commit" | "rollback" => return Err("ends transactions"),
            "call" | "do" => return Err("calls a procedure or has a DO block"),
            _ => {
                self.tokens.back_to(from);
                self.sql()?
            }
        };
        Ok(Some(step))
    }

    /// The place that a statement assigns to, if it does; its sign is passed over.
    fn assigned(&mut self) -> Read<Option<Place>> {
        let from = self.tokens.place();
        let found = match self.tokens.dotted() {
            Some(names) if names.len() > 1 || self.tokens.is_any(&[":=", "=", "["]) => self.lookup(&names),
            _ => None,
        };
        self.tokens.back_to(from);
        if found.is_none() {
            return Ok(None);
        }
        let place = self.place()?;
        if self.tokens.take(":=") || self.tokens.take("=") { Ok(Some(place)) } else { Err(UNREAD) }
    }

    /// A block or loop, with its label.
    fn with_label(&mut self) -> Read<Step> {
        let label = self.label()?;
        if self.tokens.is_any(&["declare", "begin"]) {
            let block = self.block(label)?;
            self.tokens.need(";")?;
            return Ok(Step::Block(block));
        }
        if self.tokens.take("for") {
            return self.for_loop(label);
        }
        if self.tokens.take("foreach") {
            return self.for_each(label);
        }
        let around = self.scope.clone();
        self.scope = self.scope.labelled(label.as_deref());
        let step = if self.tokens.take("while") {
            let condition = self.up_to("loop")?;
            Step::While(condition, self.looped(label)?)
        } else {
            self.tokens.need("loop")?;
            Step::Loop(self.looped(label)?)
        };
        self.scope = around;
        Ok(step)
    }

    fn branch(&mut self) -> Read<Step> {
        let mut when = vec![];
        loop {
            let condition = self.up_to("then")?;
            when.push((condition, self.steps()?));
            if !self.tokens.take("elsif") && !self.tokens.take("elseif") {
                break;
            }
        }
        let otherwise = if self.tokens.take("else") { self.steps()? } else { vec![] };
        self.ends("if")?;
        Ok(Step::If(when, otherwise))
    }

    fn ends(&mut self, what: &str) -> Read<()> {
        self.tokens.need("end")?;
        self.tokens.need(what)?;
        self.tokens.need(";")
    }

    fn case(&mut self) -> Read<Step> {
        let around = self.scope.clone();
        let value = match self.tokens.is("when") {
            true => None,
            false => {
                let value = self.until(&["when"])?;
                let name = format!("__Case__Variable_{}__", self.program.variables.len());
                Some((self.declared(&name, Kind::Own), value, name))
            }
        };
        let mut when = vec![];
        while self.tokens.take("when") {
            let text = self.tokens.until(&["then"])?;
            let condition = match &value {
                Some((_, _, name)) => self.expression(&format!("\"{name}\" IN ({text})"))?,
                None => self.expression(text)?,
            };
            self.tokens.need("then")?;
            when.push((condition, self.steps()?));
        }
        let otherwise = if self.tokens.take("else") { Some(self.steps()?) } else { None };
        self.ends("case")?;
        self.scope = around;
        Ok(Step::Case { value: value.map(|(at, value, _)| (at, value)), when, otherwise })
    }

    /// RETURN, RETURN NEXT and RETURN QUERY.
    fn gives(&mut self) -> Read<Step> {
        if self.tokens.take("next") {
            let value = if self.tokens.is(";") { None } else { Some(self.until(&[";"])?) };
            self.tokens.need(";")?;
            return Ok(Step::ReturnNext(value));
        }
        if self.tokens.take("query") {
            return Ok(Step::ReturnRows(self.query(";")?));
        }
        let value = if self.tokens.is(";") { None } else { Some(self.until(&[";"])?) };
        self.tokens.need(";")?;
        Ok(Step::Return(value))
    }

    fn raise(&mut self) -> Read<Raise> {
        let mut raise = Raise { level: "EXCEPTION", condition: None, message: None, values: vec![], options: vec![] };
        for level in ["DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "EXCEPTION"] {
            if self.tokens.take(level) {
                raise.level = level;
                break;
            }
        }
        if let Some(message) = self.tokens.string() {
            raise.message = Some(message);
            if self.tokens.take(",") {
                raise.values = self.list(&["using", ";"])?;
            }
        } else if !self.tokens.is("using") && !self.tokens.is(";") {
            let name = self.tokens.name().ok_or(UNREAD)?;
            let name = if name == "sqlstate" { self.tokens.string().ok_or(UNREAD)? } else { name };
            if conditions::states(&name).is_empty() {
                return Err(UNREAD);
            }
            raise.condition = Some(name);
        }
        if self.tokens.take("using") {
            loop {
                let name = self.tokens.name().ok_or(UNREAD)?;
                const OPTIONS: [&str; 9] =
                    ["ERRCODE", "MESSAGE", "DETAIL", "HINT", "COLUMN", "CONSTRAINT", "DATATYPE", "TABLE", "SCHEMA"];
                let option = OPTIONS.into_iter().find(|o| o.eq_ignore_ascii_case(&name)).ok_or(UNREAD)?;
                if !self.tokens.take(":=") {
                    self.tokens.need("=")?;
                }
                raise.options.push((option, self.until(&[",", ";"])?));
                if !self.tokens.take(",") {
                    break;
                }
            }
        }
        self.tokens.need(";")?;
        Ok(raise)
    }

    /// INTO's targets, and whether STRICT stands in front of them.
    fn into(&mut self) -> Read<(Target, bool)> {
        let strict = self.tokens.take("strict");
        Ok((self.target()?, strict))
    }

    fn execute(&mut self) -> Read<Step> {
        let text = self.until(&["into", "using", ";"])?;
        let (mut into, mut strict, mut using) = (None, false, vec![]);
        loop {
            if into.is_none() && self.tokens.take("into") {
                let (target, is_strict) = self.into()?;
                (into, strict) = (Some(target), is_strict);
            } else if using.is_empty() && self.tokens.take("using") {
                using = self.list(&["into", ";"])?;
            } else {
                break;
            }
        }
        self.tokens.need(";")?;
        self.program.dynamic = true;
        Ok(Step::Run { statement: Query::Dynamic(text, using), into, strict })
    }

    /// A statement in SQL; INTO and its targets are none of it, wherever they stand.
    fn sql(&mut self) -> Read<Step> {
        let begin = self.tokens.place();
        let (mut into, mut strict, mut before) = (None, false, String::new());
        let mut from = begin;
        while !self.tokens.is(";") {
            if self.tokens.is_over() {
                return Err(UNREAD);
            }
            let here = self.tokens.place();
            let behind = here.checked_sub(1).filter(|last| *last >= begin);
            let is_clause = behind.is_some_and(|last| {
                ["insert", "merge"].iter().any(|word| self.tokens.between(last, here).eq_ignore_ascii_case(word))
            });
            if self.tokens.take("into") && !is_clause {
                if into.is_some() {
                    return Err(UNREAD);
                }
                before = format!("{} ", self.tokens.between(from, here));
                let (target, is_strict) = self.into()?;
                (into, strict) = (Some(target), is_strict);
                from = self.tokens.place();
            } else if self.tokens.place() == here {
                self.tokens.next();
            }
        }
        let text = format!("{before}{}", self.tokens.between(from, self.tokens.place()));
        self.tokens.need(";")?;
        let statement = Query::Static(self.statement(&text)?);
        Ok(Step::Run { statement, into, strict })
    }

    fn diagnostics(&mut self) -> Read<Step> {
        let stacked = self.tokens.take("stacked");
        if !stacked {
            self.tokens.take("current");
        }
        self.tokens.need("diagnostics")?;
        let mut asked = vec![];
        loop {
            let place = self.place()?;
            if !self.tokens.take(":=") {
                self.tokens.need("=")?;
            }
            let name = self.tokens.name().ok_or(UNREAD)?;
            // The letters of the protocol's error fields.
            let what = match (stacked, name.as_str()) {
                (false, "row_count") => Diagnostic::RowCount,
                (true, "returned_sqlstate") => Diagnostic::Error(b'C'),
                (true, "message_text") => Diagnostic::Error(b'M'),
                (true, "pg_exception_detail") => Diagnostic::Error(b'D'),
                (true, "pg_exception_hint") => Diagnostic::Error(b'H'),
                (true, "column_name") => Diagnostic::Error(b'c'),
                (true, "constraint_name") => Diagnostic::Error(b'n'),
                (true, "pg_datatype_name") => Diagnostic::Error(b'd'),
                (true, "table_name") => Diagnostic::Error(b't'),
                (true, "schema_name") => Diagnostic::Error(b's'),
                _ => return Err("asks for diagnostics of where it is"),
            };
            self.program.counts |= what == Diagnostic::RowCount;
            asked.push((place, what));
            if !self.tokens.take(",") {
                break;
            }
        }
        self.tokens.need(";")?;
        Ok(Step::Diagnostics(asked))
    }
}
