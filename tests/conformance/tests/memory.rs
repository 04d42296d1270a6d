//! The memory store holds the contract.

use std::future::ready;

use idempotent_conformance::memory::MemoryFactory;

idempotent_runtime::store_conformance!(ready(MemoryFactory::fresh()));
