# kernelswarm with the versions that are tested together:
#   docker build -t kernelswarm .
#   docker run --rm --init --user "$(id -u):$(id -g)" --shm-size=512m -v "$PWD:/work" kernelswarm run experiment.toml
# --init reaps Ray's processes, --user makes what a run writes yours, --shm-size holds Ray's messages: Docker gives 64 MB.
FROM python:3.11-slim

# ffmpeg is for kernelswarm animate --out film.mp4.
RUN apt-get update && apt-get install --yes --no-install-recommends ffmpeg && rm -rf /var/lib/apt/lists/*

# First what others wrote, 300 MB: it is installed again only when these two files change.
COPY pyproject.toml constraints.txt /source/
RUN python -c "import tomllib; print(*tomllib.load(open('/source/pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
      > /source/requirements.txt \
    && pip install --no-cache-dir -c /source/constraints.txt -r /source/requirements.txt

COPY README.md LICENSE /source/
COPY agents /source/agents
COPY graphs /source/graphs
COPY kernelswarm /source/kernelswarm
COPY protocols /source/protocols
COPY simulations /source/simulations
RUN PIP_CONSTRAINT=/source/constraints.txt pip install --no-cache-dir --no-deps /source && pip check

# Any user may write here: --user names one that the image does not know, without a home of its own.
RUN useradd --create-home swarm && install --directory --mode 1777 /home/swarm /home/swarm/compiled /work
ENV HOME=/home/swarm USER=swarm
# Compiled functions are kept here: mount a volume to compile once for all runs.
ENV NUMBA_CACHE_DIR=/home/swarm/compiled
USER swarm
WORKDIR /work
ENTRYPOINT ["kernelswarm"]
CMD ["--help"]
