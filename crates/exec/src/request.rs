//! One execution of a statement: its text, and its parameters if it came by the extended protocol.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use plan::{ParameterPlus, ParameterRange};
use sql::template::Template;
use wire::frontend::{self, Formats};
use wire::{put, type_oid};

use crate::binary_text::text_of;

/// Parameters and formats of a Bind, kept as they came.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// Type oids as the client declared them or PostgreSQL inferred them.
    pub types: Arc<[u32]>,
    pub formats: Formats,
    pub values: Vec<Option<Bytes>>,
    pub result_formats: Formats,
    /// All of Bind behind the names, for forwarding.
    pub tail: Bytes,
    /// What some of them hold is in tables of the nodes that are asked, too.
    pub tables: Option<Arc<RowsTables>>,
}

/// Tables that have the rows of parameters, which hold a column each.
#[derive(Debug, Default)]
pub struct RowsTables(pub Vec<RowsTable>);

/// Parameters one after the other, and a table that has their rows.
#[derive(Debug)]
pub struct RowsTable {
    /// The first, from 1, and how many.
    pub first: usize,
    pub width: usize,
    pub name: String,
}

/// Bytes.
const LONG: usize = 16 << 10;

impl Bound {
    /// Of the parameter at position `i`, from 0: 0 is text, 1 binary.
    pub fn format(&self, i: usize) -> i16 {
        frontend::format_of(&self.formats, i)
    }

    /// Of the result's column at position `i`, from 0: 0 is text, 1 binary.
    pub fn result_format(&self, i: usize) -> i16 {
        frontend::format_of(&self.result_formats, i)
    }

    /// With a format for each of so many columns: a node that has more or fewer of them by now refuses to run it (pquery.c). Long values are not copied
    /// for it.
    pub fn of_columns(mut self, columns: usize) -> Bound {
        if self.result_formats.len() != columns && self.tail.len() < LONG {
            let before = self.tail.len().saturating_sub(size_of::<i16>() * (1 + self.result_formats.len()));
            self.result_formats = (0..columns).map(|i| self.result_format(i)).collect();
            let mut tail = BytesMut::with_capacity(before + size_of::<i16>() * (1 + columns));
            tail.put_slice(&self.tail[..before]);
            put_formats(&mut tail, &self.result_formats);
            self.tail = tail.freeze();
        }
        self
    }

    /// For the same statement with the values written into its text.
    pub fn without_values(&self) -> Bound {
        let mut less = Bound { result_formats: self.result_formats.clone(), ..Bound::default() };
        less.tail = bind_tail(&less);
        less
    }

    /// For another statement with the same parameters. `formats`: those of its columns; none: all are text.
    pub fn for_columns(&self, formats: Vec<i16>) -> Bound {
        let mut other = Bound { result_formats: formats.into(), ..self.clone() };
        other.tail = bind_tail(&other);
        other
    }

    /// Without the values of parameters that a text, written anew, does not name, where their types are users' own: a node
    /// that is not home could not tell the type. `None`: there are none of these.
    pub fn without_strangers(&self, sql: &str) -> Option<Bound> {
        let own = |t: &u32| *t >= type_oid::FIRST_NORMAL_OBJECT_ID;
        if !self.types.iter().any(own) {
            return None;
        }
        let named: Vec<usize> = plan::Text::written(sql).ok()?.params().collect();
        let is_stranger = |i: &usize| own(&self.types[*i]) && !named.contains(&(i + 1));
        let strangers: Vec<usize> = (0..self.types.len()).filter(is_stranger).collect();
        if strangers.is_empty() {
            return None;
        }
        let mut less = self.clone();
        let mut types = less.types.to_vec();
        for i in strangers {
            types[i] = type_oid::TEXT;
            less.values.get_mut(i)?.take();
        }
        less.types = types.into();
        less.tail = bind_tail(&less);
        Some(less)
    }

    /// The parameters' types as a node may be told them.
    pub fn types_on(&self, foreign: bool) -> Cow<'_, [u32]> {
        match foreign && self.types.iter().any(|t| *t >= type_oid::FIRST_NORMAL_OBJECT_ID) {
            true => types_on(&self.types, true).into(),
            false => self.types[..].into(),
        }
    }
}

/// Types of users' own have other object ids on nodes that are not home: there they are inferred.
pub fn types_on(types: &[u32], foreign: bool) -> Vec<u32> {
    types.iter().map(|t| if foreign && *t >= type_oid::FIRST_NORMAL_OBJECT_ID { 0 } else { *t }).collect()
}

/// One execution of a statement: what the client asked for, and how.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    pub sql: &'r str,
    /// `None`: simple protocol, everything is text and rows are described.
    pub bound: Option<&'r Bound>,
    pub literals: Literals<'r>,
    /// `None`: all rows at once.
    pub limit: Option<Limit<'r>>,
}

/// The first rows only; the node's portal of this name has the others.
#[derive(Clone, Copy)]
pub struct Limit<'r> {
    pub portal: &'r str,
    pub rows: i32,
}

/// Whether nodes keep a prepared statement for what they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    No,
    /// The client prepared it, or it has come before.
    Yes,
    /// The same, and one plan is as good as any other for its values (`plan::narrow`).
    OnePlan,
}

/// So many keys are few: an index finds them, whatever else the table has.
const NARROW_MAX: i64 = 5_000;

impl Bound {
    /// Whether the keys between these parameters are few.
    pub fn is_narrow(&self, range: ParameterRange) -> bool {
        self.spans(range) <= NARROW_MAX
    }

    /// How far the ends of a range are from each other; very far, where that is not known.
    pub fn spans(&self, range: ParameterRange) -> i64 {
        let is_integer = |n: usize| {
            self.types.get(n).is_none_or(|ty| matches!(*ty, 0 | type_oid::UNKNOWN) || type_oid::is_integer(*ty))
        };
        let at = |end: ParameterPlus| {
            let n = end.parameter.checked_sub(1).filter(|n| is_integer(*n))?;
            self.integer(n)?.checked_add(end.plus)
        };
        at(range.low).zip(at(range.high)).map_or(i64::MAX, |(low, high)| high.saturating_sub(low))
    }

    /// The parameter at position `i`, from 0, as PostgreSQL assigns it to a bigint; `None`: it is no number that is known here.
    pub fn assigned(&self, i: usize) -> Option<i64> {
        let float = |value: f64| {
            let value = value.round_ties_even();
            // 2^63 itself is none.
            (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value).then_some(value as i64)
        };
        let bytes = self.values.get(i)?.as_ref()?;
        match (self.types.get(i).copied().unwrap_or(type_oid::UNKNOWN), self.format(i)) {
            (type_oid::FLOAT4 | type_oid::FLOAT8, 0) => {
                float(key::trim_space(std::str::from_utf8(bytes).ok()?).parse().ok()?)
            }
            (type_oid::FLOAT4, _) => float(f64::from(f32::from_be_bytes(bytes[..].try_into().ok()?))),
            (type_oid::FLOAT8, _) => float(f64::from_be_bytes(bytes[..].try_into().ok()?)),
            (0 | type_oid::UNKNOWN, _) | (_, 0) => self.integer(i),
            (ty, _) if type_oid::is_integer(ty) => self.integer(i),
            (ty, _) => std::str::from_utf8(&text_of(ty, bytes)?).ok()?.parse().ok(),
        }
    }

    /// The parameter at position `i`, from 0, if it is an integer, by its bytes.
    pub fn integer(&self, i: usize) -> Option<i64> {
        let value = self.values.get(i)?.as_ref()?;
        match (self.format(i), &value[..]) {
            (0, text) => key::trim_space(std::str::from_utf8(text).ok()?).parse().ok(),
            (_, [a, b, c, d, e, f, g, h]) => Some(i64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
            (_, [a, b, c, d]) => Some(i64::from(i32::from_be_bytes([*a, *b, *c, *d]))),
            (_, [a, b]) => Some(i64::from(i16::from_be_bytes([*a, *b]))),
            _ => None,
        }
    }
}

/// Where the values of the plan's literals are: in the plan itself, or in another statement of its template.
#[derive(Clone, Copy)]
pub enum Literals<'r> {
    Own,
    Template(&'r Template),
}

impl<'r> Request<'r> {
    /// By the simple protocol: all rows, and the literals are the text's own.
    pub fn simple(sql: &'r str) -> Self {
        Request { sql, bound: None, literals: Literals::Own, limit: None }
    }

    /// All rows, with the parameters of a Bind; `None`: as [`simple`](Self::simple).
    pub fn bound(sql: &'r str, bound: Option<&'r Bound>) -> Self {
        Request { bound, ..Request::simple(sql) }
    }

    /// The statement's template, if its values are to be found by that.
    pub fn template(&self) -> Option<&'r Template> {
        match self.literals {
            Literals::Template(t) => Some(t),
            Literals::Own => None,
        }
    }

    /// Types of parameters, as far as they are known.
    pub fn types(&self) -> &'r [u32] {
        self.bound.map_or(&[], |b| &b.types)
    }

    /// It comes by the simple protocol.
    pub fn is_simple(&self) -> bool {
        self.bound.is_none()
    }

    /// The result formats for a node: everything text in the simple protocol.
    pub fn result_formats(&self) -> &[i16] {
        self.bound.map(|b| &b.result_formats[..]).unwrap_or(&[])
    }
}

/// The part of a Bind behind its names, written anew from its pieces.
pub fn bind_tail(bound: &Bound) -> Bytes {
    let mut out = BytesMut::new();
    put_formats(&mut out, &bound.formats);
    out.put_u16(bound.values.len() as u16);
    bound.values.iter().for_each(|v| put::value(&mut out, v.as_deref()));
    put_formats(&mut out, &bound.result_formats);
    out.freeze()
}

/// As Bind has them.
pub(crate) fn put_formats(out: &mut BytesMut, formats: &[i16]) {
    out.put_u16(formats.len() as u16);
    formats.iter().for_each(|f| out.put_i16(*f));
}
