//! GPUs of simulated machines: a fake `nvidia-smi` and fake driver files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::*;

const FIRST: &str = "GPU-11111111-2222-3333-4444-555555555555";
const SECOND: &str = "GPU-66666666-7777-8888-9999-000000000000";

struct Machine {
    root: tempfile::TempDir,
    settings: GpuSettings,
}

fn machine() -> Machine {
    let root = tempfile::tempdir().unwrap();
    let settings = GpuSettings {
        driver_root: root.path().to_owned(),
        nvidia_smi: root.path().join("nvidia-smi").display().to_string(),
    };
    Machine { root, settings }
}

impl Machine {
    fn nvidia_smi(&self, script: &str) -> &Self {
        let path = PathBuf::from(&self.settings.nvidia_smi);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn driver_file(&self, place: &str, minor: u32, uuid: &str) -> &Self {
        let place = self.root.path().join(DRIVER_FILES).join(place);
        fs::create_dir_all(&place).unwrap();
        let text = format!(
            "Model: \t\t Tesla T4\nIRQ:   \t\t 135\nGPU UUID: \t {uuid}\n\
             Bus Location: \t 0000:00:1e.0\nDevice Minor: \t {minor}\n"
        );
        fs::write(place.join("information"), text).unwrap();
        self
    }

    fn device(&self, minor: u32) -> &Self {
        fs::create_dir_all(self.root.path().join("dev")).unwrap();
        fs::write(self.root.path().join(format!("dev/nvidia{minor}")), "").unwrap();
        self
    }

    async fn detect(&self) -> Inventory {
        Inventory::detect(&self.settings).await
    }
}

fn pairs(labels: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

#[tokio::test]
async fn a_machine_without_gpus_has_none() {
    assert_eq!(machine().detect().await, Inventory::default());
}

#[tokio::test]
async fn nvidia_smi_reports_model_memory_and_id() {
    let machine = machine();
    machine.nvidia_smi(&format!(
        "test \"$1 $2\" = \"{} {}\" || exit 9\n\
         echo '1, NVIDIA RTX A4000 (x), 16376, {SECOND}'\n\
         echo '0, NVIDIA A100-SXM4-40GB, 40960, {FIRST}'",
        QUERY[0], QUERY[1]
    ));
    let inventory = machine.detect().await;
    assert_eq!(inventory.count(), 2);
    assert_eq!(
        pairs(&inventory.labels(2)),
        [
            ("GPU-0", "NVIDIA-A100-SXM4-40GB"),
            ("GPU-0-Memory", "40960"),
            ("GPU-1", "NVIDIA-RTX-A4000--x-"),
            ("GPU-1-Memory", "16376"),
        ]
    );
    // GPUs that the settings exclude are not reported.
    assert_eq!(inventory.labels(1).len(), 2);
    assert_eq!(inventory.device_ids(&[1, 0, 5]), [SECOND, FIRST, "5"]);
}

#[tokio::test]
async fn unknown_memory_is_left_out() {
    let machine = machine();
    machine.nvidia_smi(&format!("echo '0, NVIDIA GB10, [N/A], {FIRST}'"));
    assert_eq!(pairs(&machine.detect().await.labels(1)), [("GPU-0", "NVIDIA-GB10")]);
}

#[tokio::test]
async fn the_drivers_files_list_gpus_in_bus_order() {
    let machine = machine();
    machine.driver_file("0000:3b:00.0", 0, SECOND).driver_file("0000:1e:00.0", 1, FIRST);
    machine.device(0).device(1);
    let inventory = machine.detect().await;
    assert_eq!(inventory.device_ids(&[0, 1]), [FIRST, SECOND]);
    assert_eq!(pairs(&inventory.labels(9)), [("GPU-0", "Tesla-T4"), ("GPU-1", "Tesla-T4")]);
}

#[tokio::test]
async fn the_drivers_files_are_used_when_nvidia_smi_fails() {
    for script in [
        "echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9",
        "echo 'No devices were found'",
        "echo '1, Tesla T4, 15360, GPU-1'",
    ] {
        let machine = machine();
        machine.nvidia_smi(script).driver_file("0000:1e:00.0", 0, "GPU-????").device(0);
        let inventory = machine.detect().await;
        assert_eq!(inventory.device_ids(&[0]), ["0"], "{script}");
        assert_eq!(inventory.count(), 1, "{script}");
    }
}

#[tokio::test]
async fn a_gpu_without_its_device_file_disables_all() {
    let machine = machine();
    machine.driver_file("0000:1e:00.0", 0, FIRST).driver_file("0000:3b:00.0", 1, SECOND).device(1);
    assert_eq!(machine.detect().await.count(), 0);
}
