def draw_figures(rows,out): return {}
