def write_report(rows,pictures,out,*,seeds): return len(rows)
