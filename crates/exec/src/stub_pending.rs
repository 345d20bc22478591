//! stub
use crate::{Client, ExecError, Forwarded, Work, Bound};
pub struct AdminCall;
pub struct AdminDone { pub forwarded: Forwarded, pub after_commit: Vec<String> }
pub fn recognise(_: &sql::NodeEnum) -> Option<Result<AdminCall, ExecError>> { None }
impl AdminCall {
    pub fn with_params(self, _: &Bound) -> Result<Self, ExecError> { Ok(self) }
    pub fn columns(&self) -> Vec<wire::backend::Field> { vec![] }
}
pub fn changes_catalog(_: &sql::NodeEnum) -> bool { true }
impl<C: Client> Work<'_, C> {
    pub async fn admin(&mut self, _: AdminCall, _: &[String], _: i32, _: bool, _: i16) -> Result<AdminDone, ExecError> { todo!() }
    pub async fn ddl(&mut self, _: &sql::NodeEnum, _: &str, _: &[String], _: &[String]) -> Result<Option<Forwarded>, ExecError> { Ok(None) }
}
