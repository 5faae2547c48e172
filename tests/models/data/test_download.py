"""Downloads against a server on this machine: whole and checked, or nothing and one clear line."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gnnaudit.models.data import download
from gnnaudit.models.data.checksums import SHA256, Remote, remote
from gnnaudit.models.data.download import data_folder, digest, obtain

BODY = b"a graph" * 1000


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY) * (2 if self.path == "/cut" else 1)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


def files(folder):
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def test_a_file_arrives_whole_and_alone(server, tmp_path):
    path = obtain(Remote("set/file", f"{server}/file", hashlib.sha256(BODY).hexdigest()), tmp_path)
    assert path == tmp_path / "set" / "file"
    assert path.read_bytes() == BODY
    assert files(tmp_path) == ["file"]


@pytest.mark.parametrize("at", ["set/file", "file"])
def test_a_file_at_hand_is_taken_without_the_network(at, tmp_path):
    (tmp_path / at).parent.mkdir(exist_ok=True)
    (tmp_path / at).write_bytes(b"mine")
    assert obtain(Remote("set/file", "http://127.0.0.1:9/none"), tmp_path).read_bytes() == b"mine"


@pytest.mark.parametrize(("page", "said"), [("/file", "sha256 is"), ("/cut", "broke after"), ("/missing", "404")])
def test_a_bad_answer_leaves_nothing_and_says_the_way_out(server, tmp_path, page, said):
    with pytest.raises(ValueError, match=said) as error:
        obtain(Remote("set/file", server + page, "0" * 64), tmp_path)
    assert files(tmp_path) == []
    line = str(error.value)
    assert "\n" not in line
    assert server + page in line
    assert str(tmp_path / "set" / "file") in line
    assert "--data-dir" in line


def test_offline_is_one_line_with_address_folder_and_way_out(tmp_path):
    with pytest.raises(ValueError, match="cannot be reached") as error:
        obtain(Remote("set/file", "http://127.0.0.1:9/file", "0" * 64), tmp_path)
    line = str(error.value)
    assert "\n" not in line
    assert "http://127.0.0.1:9/file" in line
    assert str(tmp_path) in line
    assert "--data-dir" in line


def test_a_folder_that_cannot_be_made_is_one_line(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="--data-dir"):
        obtain(Remote("set/x", f"{server}/file", "0" * 64), tmp_path / "file")


def test_progress_goes_to_stderr_and_never_to_stdout(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(download, "QUIET", -1.0)
    obtain(Remote("set/file", f"{server}/file"), tmp_path, trust=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "downloading file" in err


def test_a_quick_download_is_silent(server, tmp_path, capsys):
    obtain(Remote("set/file", f"{server}/file"), tmp_path, trust=True)
    assert capsys.readouterr() == ("", "")


def test_the_folder_is_the_option_then_the_environment_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GNNAUDIT_DATA", str(tmp_path / "set"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder() == tmp_path / "set"
    (tmp_path / "set").write_text("")
    with pytest.raises(ValueError, match=r"GNNAUDIT_DATA=.*set: is no folder"):
        data_folder()
    monkeypatch.delenv("GNNAUDIT_DATA")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "gnnaudit" / "data"


def test_files_at_hand_are_the_published_ones(data_dir):
    found = {at: digest(data_dir / at) for at in SHA256 if (data_dir / at).is_file()}
    assert found == {at: SHA256[at] for at in found}


def test_every_published_file_has_an_address():
    assert all(remote(at).url.startswith("https://") and remote(at).url.endswith(at.split("/")[1]) for at in SHA256)


def test_without_a_known_checksum_nothing_is_fetched_unless_trusted(server, tmp_path):
    remote = Remote("set/file", f"{server}/file")
    with pytest.raises(ValueError, match="no sha256 of this file is known") as error:
        obtain(remote, tmp_path)
    assert "--trust" in str(error.value)
    assert files(tmp_path) == []
    assert obtain(remote, tmp_path, trust=True).read_bytes() == BODY
