//! Finding a server.

use std::fs;
use std::path::{Path, PathBuf};

use super::server;

/// A folder of files, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
        for file in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_whole_server_is_found_on_path_or_in_debians_folder() {
    let on_path = Folder::new("path", &["initdb", "postgres"]);
    let debian = Folder::new("debian", &["15/bin/initdb", "15/bin/postgres"]);
    let nowhere = Path::new("nowhere");
    assert_eq!(server(&[nowhere.into(), on_path.0.clone()], nowhere), Some(on_path.0.clone()));
    assert_eq!(server(&[], &debian.0), Some(debian.0.join("15/bin")));
}

#[test]
fn a_client_is_no_server() {
    let client = Folder::new("client", &["psql", "initdb"]);
    assert_eq!(server(std::slice::from_ref(&client.0), Path::new("nowhere")), None);
}
