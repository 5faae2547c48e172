# docker build -t gnnaudit . && docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" gnnaudit run --model ./mine.py:Mine --epsilon 1
FROM python:3.11-slim AS wheel
COPY . /src
RUN pip wheel --no-deps --wheel-dir /wheels /src

FROM python:3.11-slim
# The requirements fix torch's version; of this version pip prefers the CPU build, which TORCH_INDEX offers, to the larger build of PyPI.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY --from=wheel /wheels /src/requirements.lock /install/
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c /install/requirements.lock /install/*.whl && rm -rf /install
# A user whom the image does not know has no home. Each container compiles for the processor on which it runs.
ENV HOME=/tmp OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=/tmp/numba
WORKDIR /work
ENTRYPOINT ["audit"]
CMD ["--help"]
