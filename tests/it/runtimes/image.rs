//! A root file system of busybox alone, and an image of it, without a registry.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sha2::{Digest as _, Sha256};

/// What the image is called.
pub(super) const NAME: &str = "docker.io/library/host-affine-test:1";

/// Makes the root file system in a directory. `Err`: why that cannot be done here.
pub(super) fn rootfs(folder: &Path) -> Result<PathBuf, String> {
    let busybox = Path::new("/bin/busybox");
    if !busybox.is_file() {
        return Err("busybox is not installed".to_owned());
    }
    let root = folder.join("rootfs");
    for name in ["bin", "proc", "sys", "dev", "etc", "tmp", "run", "var", "root", "www"] {
        fs::create_dir_all(root.join(name)).expect("a directory");
    }
    fs::copy(busybox, root.join("bin/busybox")).expect("a copy");
    for name in ["sh", "ip", "ping", "cat", "sleep", "ls", "httpd", "wget"] {
        symlink("busybox", root.join("bin").join(name)).expect("a link");
    }
    fs::write(root.join("www/index.html"), "here I am\n").expect("a page");
    let works = Command::new("chroot").arg(&root).args(["/bin/ls", "/"]).output();
    match works {
        Ok(output) if output.status.success() => Ok(root),
        _ => Err("busybox is not static (Debian: busybox-static)".to_owned()),
    }
}

/// Packs a root file system as `docker save` does, to be imported by containerd.
pub(super) fn pack(root: &Path, folder: &Path) -> PathBuf {
    let tar = |archive: &Path, from: &Path, names: &[&str]| {
        let mut command = Command::new("tar");
        command
            .args(["--sort=name", "--owner=0", "--group=0", "-cf"])
            .arg(archive)
            .arg("-C")
            .arg(from)
            .args(names);
        assert!(command.status().expect("tar can be run").success());
    };
    let parts = folder.join("parts");
    fs::create_dir(&parts).expect("a directory");
    tar(&parts.join("layer.tar"), root, &["."]);
    let digest = digest_of(&fs::read(parts.join("layer.tar")).expect("a layer"));
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }, "os": "linux",
        "config": { "Cmd": ["/bin/sleep", "100000"], "Env": ["PATH=/bin"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
    });
    let config = config.to_string();
    let config_name = format!("{}.json", digest_of(config.as_bytes()));
    fs::write(parts.join(&config_name), config).expect("a file");
    let manifest = json!([{ "Config": config_name, "RepoTags": [NAME], "Layers": ["layer.tar"] }]);
    fs::write(parts.join("manifest.json"), manifest.to_string()).expect("a file");
    let image = folder.join("image.tar");
    tar(&image, &parts, &["manifest.json", &config_name, "layer.tar"]);
    image
}

fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
