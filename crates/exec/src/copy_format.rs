//! placeholder until the real module is copied here
use bytes::BytesMut;
#[derive(PartialEq, Clone, Copy)]
pub enum Format { Text, Csv, Binary }
pub struct CopyOptions { pub format: Format }
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct CopyError;
impl CopyError { pub fn sqlstate(&self) -> &'static str { "0A000" } }
impl CopyOptions { pub fn from_ast(_: &[sql::ast::Node]) -> Result<Self, CopyError> { Err(CopyError) } }
pub struct Splitter;
impl Splitter {
    pub fn new(_: &CopyOptions, _: Vec<usize>, _: usize) -> Self { Splitter }
    pub fn push<E: From<CopyError>>(&mut self, _: &[u8], _: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>) -> Result<(), E> { Ok(()) }
    pub fn finish<E: From<CopyError>>(&mut self, _: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>) -> Result<(), E> { Ok(()) }
    pub fn preamble(&self) -> Option<&[u8]> { None }
}
pub fn append_fields(_: &CopyOptions, _: &[u8], _: &[Option<&str>], _: &mut Vec<u8>) {}
pub fn append_header_fields(_: &CopyOptions, _: &[u8], _: &[&str], _: &mut Vec<u8>) {}
pub fn encode_header(_: &CopyOptions, _: &[&str], _: &mut BytesMut) {}
pub fn encode_row(_: &CopyOptions, _: &[Option<&[u8]>], _: &mut BytesMut) {}
pub struct BinaryJoin;
impl BinaryJoin { pub fn new() -> Self { BinaryJoin } pub fn push(&mut self, _: &[u8], _: &mut Vec<u8>) {} pub fn next_stream(&mut self) {} }
