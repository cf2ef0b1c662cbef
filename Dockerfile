# kernelswarm with the versions that are tested together:
#   docker build -t kernelswarm .
#   docker run --rm -v "$PWD:/work" kernelswarm run experiment.toml
FROM python:3.11-slim

# ffmpeg is for kernelswarm animate --out film.mp4.
RUN apt-get update && apt-get install --yes --no-install-recommends ffmpeg && rm -rf /var/lib/apt/lists/*

COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY agents /source/agents
COPY graphs /source/graphs
COPY kernelswarm /source/kernelswarm
COPY protocols /source/protocols
COPY simulations /source/simulations
RUN pip install --no-cache-dir -c /source/constraints.txt /source && rm -rf /source

RUN useradd --create-home swarm
USER swarm
WORKDIR /work
# Compiled functions are kept here: mount a volume to compile once for all runs.
ENV NUMBA_CACHE_DIR=/home/swarm/compiled
ENTRYPOINT ["kernelswarm"]
CMD ["--help"]
