//! Program of PL/pgSQL, from its text: its grammar (pl_gram.y), word by word. What stands in statements and expressions is SQL, which the
//! parser of SQL reads. Of what is not known here the body is not read at all.

mod cursors;
mod declare;
mod for_loops;
mod statements;

use super::scope::{Found, Scope};
use super::tokens::{Read, Tokens, UNREAD};
use super::{
    Block, Conflict, Ex, Expression, Handler, Jump, Kind, Loop, Place, Program, Query, Step, Target, Variable,
    conditions, has_backslash,
};

impl Program {
    pub(super) fn plpgsql(&mut self, source: &str) -> Read<()> {
        self.plpgsql_with(source, &[])
    }

    /// The same with more variables around it, which have these names.
    pub(super) fn plpgsql_with(&mut self, source: &str, more: &[(&str, Kind)]) -> Read<()> {
        self.has_backslash = has_backslash(source);
        let mut outermost = Scope::default().labelled(self.name.as_deref());
        for (at, parameter) in self.variables.iter().enumerate() {
            outermost = outermost.with(&format!("${}", at + 1), at);
            if let Some(name) = &parameter.name {
                outermost = outermost.with(name, at);
            }
        }
        self.found = Some(self.variables.len());
        let found = ("found", Kind::Type("pg_catalog.bool".into()));
        for (name, kind) in std::iter::once(&found).chain(more) {
            outermost = outermost.with(name, self.variables.len());
            self.variables.push(Variable { name: Some((*name).into()), kind: kind.clone(), ..Variable::default() });
        }
        let tokens = Tokens::of(source)?;
        Reader { tokens, program: self, scope: outermost }.whole()
    }
}

/// What is read, and what can be seen where reading is.
struct Reader<'s, 'p> {
    tokens: Tokens<'s>,
    program: &'p mut Program,
    scope: Scope,
}

impl Reader<'_, '_> {
    fn whole(mut self) -> Read<()> {
        while self.tokens.take("#") {
            self.option()?;
        }
        let block = self.labelled_block()?;
        self.tokens.take(";");
        if !self.tokens.is_over() {
            return Err(UNREAD);
        }
        self.program.block = block;
        Ok(())
    }

    /// #variable_conflict and the like
    fn option(&mut self) -> Read<()> {
        let name = self.tokens.name().ok_or(UNREAD)?;
        // ON is a name here.
        let value = self.tokens.name().ok_or(UNREAD)?;
        match (name.as_str(), value.as_str()) {
            ("variable_conflict", "error") => self.program.conflict = Conflict::Error,
            ("variable_conflict", "use_variable") => self.program.conflict = Conflict::Variable,
            ("variable_conflict", "use_column") => self.program.conflict = Conflict::Column,
            ("print_strict_params", "on") => self.program.tells_parameters = true,
            ("print_strict_params", "off") => self.program.tells_parameters = false,
            _ => return Err("has compiler options"),
        }
        Ok(())
    }

    /// `<<label>>`, if there is one.
    fn label(&mut self) -> Read<Option<String>> {
        if !self.tokens.take("<<") {
            return Ok(None);
        }
        let label = self.tokens.name().ok_or(UNREAD)?;
        self.tokens.need(">>")?;
        Ok(Some(label))
    }

    fn labelled_block(&mut self) -> Read<Block> {
        let label = self.label()?;
        self.block(label)
    }

    /// [DECLARE …] BEGIN … [EXCEPTION …] END [label]
    fn block(&mut self, label: Option<String>) -> Read<Block> {
        let around = self.scope.clone();
        self.scope = self.scope.labelled(label.as_deref());
        let mut declared = vec![];
        if self.tokens.take("declare") {
            while !self.tokens.take("begin") {
                if !self.tokens.take("declare") {
                    declared.extend(self.declaration()?);
                }
            }
        } else {
            self.tokens.need("begin")?;
        }
        let steps = self.steps()?;
        let handlers = if self.tokens.take("exception") { self.handlers()? } else { vec![] };
        self.tokens.need("end")?;
        self.end_label(&label)?;
        self.scope = around;
        Ok(Block { label, declared, steps, handlers })
    }

    /// The name behind an END, which is that of what ends.
    fn end_label(&mut self, label: &Option<String>) -> Read<()> {
        match self.tokens.name() {
            Some(name) if Some(&name) != label.as_ref() => Err(UNREAD),
            _ => Ok(()),
        }
    }

    fn handlers(&mut self) -> Read<Vec<Handler>> {
        for name in ["sqlstate", "sqlerrm"] {
            self.declared(name, Kind::Own);
        }
        let mut handlers = vec![];
        while self.tokens.take("when") {
            let mut states = vec![];
            loop {
                let name = self.tokens.name().ok_or(UNREAD)?;
                let name = match name.as_str() {
                    "sqlstate" => self.tokens.string().ok_or(UNREAD)?,
                    _ => name,
                };
                match (name.as_str(), conditions::states(&name)) {
                    ("others", _) => states.push(None),
                    (_, known) if known.is_empty() => return Err(UNREAD),
                    (_, known) => states.extend(known.into_iter().map(|s| Some(s.to_string()))),
                }
                if !self.tokens.take("or") {
                    break;
                }
            }
            self.tokens.need("then")?;
            handlers.push(Handler { states, steps: self.steps()? });
        }
        if handlers.is_empty() { Err(UNREAD) } else { Ok(handlers) }
    }

    /// Statements up to a word that ends a list of them.
    fn steps(&mut self) -> Read<Vec<Step>> {
        let mut steps = vec![];
        while !self.tokens.is_any(&["end", "else", "when"]) {
            let is_assigned = self.tokens.is_behind(":=") || self.tokens.is_behind("=");
            if self.tokens.is_any(&["exception", "elsif", "elseif"]) && !is_assigned {
                break;
            }
            if let Some(step) = self.step()? {
                steps.push(step);
            }
        }
        Ok(steps)
    }

    /// A variable that can be seen from here on.
    fn declared(&mut self, name: &str, kind: Kind) -> usize {
        let at = self.unseen(Variable { name: Some(name.to_string()), kind, ..Variable::default() });
        self.scope = self.scope.with(name, at);
        at
    }

    fn unseen(&mut self, variable: Variable) -> usize {
        self.program.variables.push(variable);
        self.program.variables.len() - 1
    }

    /// A variable by its name, if the name is one's; or a field of it.
    fn lookup(&self, names: &[String]) -> Option<Place> {
        let parts: Vec<&str> = names.iter().map(String::as_str).collect();
        // What a named type is turns out later.
        let may_have_fields = |at: usize| {
            let own = at < self.program.parameters;
            own || matches!(
                self.program.variables[at].kind,
                Kind::Record | Kind::Row(_) | Kind::Type(_) | Kind::Column(..)
            )
        };
        let Found { variable, names } = self.scope.find(&parts, &may_have_fields)?;
        match parts.get(names..)? {
            [] => Some(Place { variable, field: None }),
            [field] => Some(Place { variable, field: Some((*field).to_string()) }),
            _ => None,
        }
    }

    /// A place that may be changed.
    fn place(&mut self) -> Read<Place> {
        let names = self.tokens.dotted().ok_or(UNREAD)?;
        let place = self.lookup(&names).ok_or(UNREAD)?;
        if self.program.variables[place.variable].constant {
            return Err("changes a constant");
        }
        if self.tokens.is("[") || self.tokens.is(".") {
            return Err("changes a part of a value");
        }
        self.program.changed.push((place.clone(), None));
        Ok(place)
    }

    /// Places with commas between them.
    fn target(&mut self) -> Read<Target> {
        let mut places = vec![self.place()?];
        while self.tokens.take(",") {
            places.push(self.place()?);
        }
        Ok(places)
    }

    /// A variable without a field, which is not changed here.
    fn read_variable(&mut self) -> Read<usize> {
        let names = self.tokens.dotted().ok_or(UNREAD)?;
        match self.lookup(&names) {
            Some(Place { variable, field: None }) => Ok(variable),
            _ => Err(UNREAD),
        }
    }

    fn statement(&mut self, text: &str) -> Read<Ex> {
        let expression = Expression::of(text, &self.scope)?;
        Ok(self.program.has(expression))
    }

    fn expression(&mut self, text: &str) -> Read<Ex> {
        self.statement(&format!("SELECT {text}"))
    }

    /// An expression up to one of these, which is left to come.
    fn until(&mut self, ends: &[&str]) -> Read<Ex> {
        let text = self.tokens.until(ends)?;
        self.expression(text)
    }

    /// An expression, and what it ends with.
    fn up_to(&mut self, end: &str) -> Read<Ex> {
        let e = self.until(&[end])?;
        self.tokens.need(end)?;
        Ok(e)
    }

    /// Expressions with commas between them, up to one of these.
    fn list(&mut self, ends: &[&str]) -> Read<Vec<Ex>> {
        let mut ends = ends.to_vec();
        ends.push(",");
        let mut list = vec![self.until(&ends)?];
        while self.tokens.take(",") {
            list.push(self.until(&ends)?);
        }
        Ok(list)
    }

    /// EXECUTE's text, with USING, up to `end`.
    fn executed(&mut self, end: &str) -> Read<Query> {
        let text = self.until(&["using", end])?;
        let using = if self.tokens.take("using") { self.list(&[end])? } else { vec![] };
        self.tokens.need(end)?;
        self.program.dynamic = true;
        Ok(Query::Dynamic(text, using))
    }

    /// EXECUTE …, or a query up to `end`.
    fn query(&mut self, end: &str) -> Read<Query> {
        if self.tokens.take("execute") {
            return self.executed(end);
        }
        let text = self.tokens.until(&[end])?;
        self.tokens.need(end)?;
        Ok(Query::Static(self.statement(text)?))
    }

    /// LOOP's steps, behind that word.
    fn looped(&mut self, label: Option<String>) -> Read<Loop> {
        let steps = self.steps()?;
        self.tokens.need("end")?;
        self.tokens.need("loop")?;
        self.end_label(&label)?;
        self.tokens.need(";")?;
        Ok(Loop { label, steps })
    }
}

#[cfg(test)]
mod tests;
