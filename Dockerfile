# docker build -t gnnaudit . && docker run --rm -v "$PWD:/work" gnnaudit run --model ./mine.py:Mine --epsilon 1
FROM python:3.11-slim
ENV PIP_NO_CACHE_DIR=1 OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=/tmp/numba
COPY . /src
RUN pip install torch --index-url https://download.pytorch.org/whl/cpu && pip install -c /src/requirements.lock /src && rm -rf /src
WORKDIR /work
ENTRYPOINT ["audit"]
CMD ["--help"]
