"""Published files: the URL and the expected sha256 of each."""

from dataclasses import dataclass

GITHUB = "https://github.com/"
MUSAE = "https://raw.githubusercontent.com/benedekrozemberczki/MUSAE/master/input/"

URLS = {
    "facebook100": GITHUB + "sisaman/pyg-datasets/raw/main/datasets/facebook100/",
    "planetoid": GITHUB + "kimiyoung/planetoid/raw/master/data/",
    "npz/cora_ml.npz": GITHUB + "gasteigerjo/ppnp/raw/master/ppnp/data/",
    "nifty/credit.csv": GITHUB + "chirag126/nifty/raw/main/dataset/credit/",
    "nifty/german.csv": GITHUB + "chirag126/nifty/raw/main/dataset/german/",
    "musae_facebook/facebook_edges.csv": MUSAE + "edges/",
    "musae_facebook/facebook.json": MUSAE + "features/",
    "musae_facebook/facebook_target.csv": MUSAE + "target/",
}

SHA256 = {
    "facebook100/Amherst41.mat": "3108e4b2edb01be05c5a61147583a40e61012820fff7eebe621dd26018caaf00",
    "facebook100/Caltech36.mat": "597d8307f9aaaaf50343e12a22893c203c52b92e1dd5b3fb35e13f19871d6ffa",
    "facebook100/Cornell5.mat": "d9ff76ae34e855cb77b0779a3a320f7f73f848901cb13352e2734c17804c4aec",
    "facebook100/JohnsHopkins55.mat": "fc7243bf257155df03afbc397ab34b5f8eb8e75f40cd1603398e207a033ef50f",
    "facebook100/Reed98.mat": "d12ec74dc8c6e237385975b976c3709555a83629a1260be693fb688e3446070e",
    "facebook100/Rice31.mat": "ec7e4b35c6db6a23ca55e5a30bfe1b899c0b5c97e1b5a9abf16f3b8aa08c2537",
    "facebook100/Simmons81.mat": "c4abbe3ab631c83d9775893d207984e9e9ae989364965560637ffdd7ca7fd677",
    "planetoid/ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "planetoid/ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "planetoid/ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "planetoid/ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "planetoid/ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "planetoid/ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "planetoid/ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "planetoid/ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "planetoid/ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "planetoid/ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "planetoid/ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "planetoid/ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "planetoid/ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "planetoid/ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "planetoid/ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "planetoid/ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "npz/cora_ml.npz": "e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda",
    "musae_facebook/facebook.json": "ea870537646a93642a0008d38aa9bfeff02018070ba97b1f3f469d9622626436",
    "musae_facebook/facebook_edges.csv": "7c50d8f02a75cc0829577814a1fc14535164daa38d79c3612340c9e9cdbd4022",
    "musae_facebook/facebook_target.csv": "7bd96eafea3c2ca40f44bfa9e73642194696c21e38c7b29ed409c32ad14075cd",
    "nifty/credit.csv": "5d7a93f25a09dd1648c78b5e0c6a883ca832ee88259d89dfe1062e8c848bfe5d",
    "nifty/german.csv": "49cc549b1ca3f1650e3bdcd8cfce62313c763abfbcbf785d32b07fb76ae078ca",
}


@dataclass(frozen=True)
class Remote:
    """A published file. path: its path under the data folder. sha256: None if no digest is known."""

    path: str
    url: str
    sha256: str | None = None


def remote(path: str) -> Remote:
    """The published file with this path, folder/name, under the data folder."""
    folder, name = path.split("/")
    return Remote(path, (URLS.get(path) or URLS[folder]) + name, SHA256.get(path))
