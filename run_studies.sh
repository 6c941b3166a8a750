export COUNTERMAX_NO_CACHE=1 JAX_PLATFORMS=cpu OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=src
rm -f results/causation/cells/causation/[!r]*
timeout 270 python -m studies causation --preset best --out results/causation --jobs 16 > $OUT/causation.log 2>&1
(cd results/causation/cells && tar cf $OUT/causation.tar .)
