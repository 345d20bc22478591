//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides. stub
